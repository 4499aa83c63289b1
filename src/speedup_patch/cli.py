"""The command ``sup``: parses, calls, prints. Bad input ends with one clear line and exit code 2."""

import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import tyro
from rich.console import Console

from speedup_patch.errors import InputError

app = tyro.extras.SubcommandApp()

Positional = tyro.conf.Positional


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2))


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


@app.command(name="collect")
def collect(
    env: Positional[str],
    *,
    out: Path,
    episodes: int = 50,
    seed: int = 0,
    processes: int | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write scripted demonstrations of a simulated task as a LeRobot v3.0 data set.

    Args:
        env: The task, such as aloha/insertion.
        out: Folder to write the data set to.
        episodes: How many successful demonstrations to keep.
        seed: Which collection: another seed gives other demonstrations. None shares a start with evaluation seeds.
        processes: How many processes to use; all cores when not given.
        overwrite: Replace OUT if it exists.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.artefacts import refuse_existing
    from speedup_patch.datasets import write_demonstrations
    from speedup_patch.envs.collect import collect_demonstrations
    from speedup_patch.progress import show_progress

    refuse_existing(out, overwrite)
    with show_progress(quiet=json) as report:
        demonstrations = collect_demonstrations(
            env,
            episodes,
            seed=seed,
            processes=processes or _cores(),
            report=lambda done, total: report("demonstrations", done, total, {}),
        )
    write_demonstrations(demonstrations, out, overwrite=overwrite)
    if json:
        _print_json({"out": str(out), "episodes": len(demonstrations), "frames": demonstrations.frames})
    else:
        print(f"{len(demonstrations)} episodes, {demonstrations.frames} frames -> {out}")


@app.command(name="inspect")
def inspect(dataset: Positional[Path], *, robot: str | None = None, json: bool = False) -> None:
    """Look at a data set: what is in it, what is odd about it, and the training command to run next.

    Args:
        dataset: A LeRobot v3.0 folder or a .npz file.
        robot: Name of the robot; recognised from the data when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.datasets import read_demonstrations, read_names
    from speedup_patch.inspect import inspect_demonstrations, render_inspection
    from speedup_patch.robots import find_robot

    demonstrations = read_demonstrations(dataset)
    state_names, action_names = read_names(dataset)
    found = inspect_demonstrations(
        demonstrations,
        find_robot(robot) if robot else None,
        dataset=str(dataset),
        state_names=state_names,
        action_names=action_names,
    )
    if json:
        _print_json(asdict(found))
    else:
        _console().print(render_inspection(found))


@app.command(name="train")
def train(
    dataset: Positional[Path],
    *,
    robot: str,
    out: Path,
    preset: str = "default",
    chunk: int | None = None,
    rates: str | None = None,
    epsilon: float | None = None,
    world_model: str | None = None,
    steps: int | None = None,
    device: str = "auto",
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Train a patch from demonstrations alone.

    Args:
        dataset: A LeRobot v3.0 folder or a .npz file.
        robot: Name of the robot, such as aloha.
        out: Folder to write the patch to.
        preset: default, or one of the paper's settings: bigym, libero, real.
        chunk: How many actions your policy predicts at a time.
        rates: Rates to choose from, such as 1,2,3,4.
        epsilon: Largest end-effector deviation that still counts as the same motion.
        world_model: gru, mlp or servo; auto picks the one that fits the robot.
        steps: Training steps for each network, instead of the preset's.
        device: auto, cpu, cuda or mps.
        seed: Everything random follows from it.
        resume: Go on with a run that was stopped.
        overwrite: Replace OUT if it exists.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.artefacts import refuse_existing
    from speedup_patch.datasets import read_demonstrations
    from speedup_patch.pipeline import train_patch
    from speedup_patch.progress import show_progress
    from speedup_patch.robots import find_robot
    from speedup_patch.training import choose_device

    refuse_existing(out, overwrite)
    config = _training_config(robot, preset, chunk, rates, epsilon, world_model, steps, seed)
    workspace = out.with_name(f"{out.name}.training")
    if workspace.exists() and not resume:
        shutil.rmtree(workspace)
    with show_progress(quiet=json) as report:
        patch = train_patch(
            read_demonstrations(dataset),
            find_robot(robot),
            config,
            device=choose_device(device),
            workspace=workspace,
            resume=resume,
            report=report,
        )
    patch.save(out, overwrite)
    shutil.rmtree(workspace, ignore_errors=True)
    if json:
        _print_json({"out": str(out), **patch.provenance})
        return
    figures = patch.provenance["held_out"]["scheduler"]
    print(f"patch -> {out}")
    print(f"held-out states: mean rate {figures['rate_mean']:.2f}, violating choices {figures['violating']:.1%}")
    if not config.penalty_is_safe:
        print(f"note: penalty {config.penalty:g} is below the bound that guarantees safety (the paper's own setting)")


def _training_config(
    robot: str,
    preset: str,
    chunk: int | None,
    rates: str | None,
    epsilon: float | None,
    world_model: str | None,
    steps: int | None,
    seed: int,
):
    from speedup_patch.presets import find_preset
    from speedup_patch.robots import find_robot
    from speedup_patch.world_model.training import resolve_kind

    config = replace(find_preset(preset), seed=seed)
    if rates is not None:
        config = replace(config, rates=replace(config.rates, values=_numbers(rates)))
    if chunk is not None:
        config = replace(config, chunk_length=chunk)
    if epsilon is not None:
        config = replace(config, epsilon=epsilon)
    if world_model is not None:
        config = replace(config, world_model=replace(config.world_model, kind=world_model))
    changes = {"seed": seed} if steps is None else {"seed": seed, "steps": steps}
    model = config.world_model
    kind = resolve_kind(model, find_robot(robot))
    return replace(
        config,
        world_model=replace(model, loop=replace(model.resolved_loop(kind), **changes)),
        scheduler=replace(config.scheduler, loop=replace(config.scheduler.loop, **changes)),
    )


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--rates {text!r} is not a list of numbers such as 1,2,3,4") from None


@app.command(name="check")
def check(patch: Positional[Path], dataset: Positional[Path], *, json: bool = False) -> None:
    """Judge a patch offline: what each rate would do on held-out states, and how the scheduler chooses.

    Args:
        patch: A patch folder.
        dataset: The data set it was trained on (its held-out episodes are used), or another of the same robot.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.check import check_patch
    from speedup_patch.datasets import read_demonstrations
    from speedup_patch.patch import load_patch
    from speedup_patch.tables import check_lines, check_table

    found = check_patch(load_patch(patch), read_demonstrations(dataset))
    if json:
        _print_json(asdict(found))
        return
    _console().print(check_table(found))
    for line in check_lines(found):
        print(line)


@app.command(name="eval")
def evaluate(
    env: Positional[str],
    *,
    policy: str,
    scheduler: tuple[str, ...],
    out: Path,
    episodes: int = 50,
    seed: int = 0,
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Run schedulers in closed loop on the same seeds and compare them with the unpatched policy.

    Args:
        env: The task, such as aloha/insertion.
        policy: The policy, such as onnx:FILE or bundled:aloha/insertion.
        scheduler: One or more of base, fixed:RATE, mpc:PATCH, speedcap:PATCH, a PATCH folder; dwell+ before any.
        out: Folder for the run; a run that was stopped goes on when called again.
        episodes: Episodes for every scheduler.
        seed: First episode seed.
        processes: How many processes to use; all cores when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.evaluation.run import EvaluationConfig
    from speedup_patch.evaluation.run import evaluate as run
    from speedup_patch.evaluation.table import COLUMNS, summary_rows
    from speedup_patch.progress import show_progress
    from speedup_patch.tables import text_table

    config = EvaluationConfig(env, policy, scheduler, episodes, seed)
    with show_progress(quiet=json) as report:
        result = run(config, out, processes=processes or _cores(), report=report)
    if json:
        _print_json(result.to_json())
    else:
        _console().print(text_table(COLUMNS, summary_rows(result.schedulers), f"{env}, {episodes} paired episodes"))


@app.command(name="demo")
def demo(
    *,
    out: Path,
    demonstrations: int = 50,
    episodes: int = 30,
    processes: int | None = None,
    overwrite: bool = False,
) -> None:
    """Do the whole job on ALOHA insertion: collect demonstrations, train a patch, evaluate it in closed loop.

    Args:
        out: Folder for the demonstrations, the patch and the run.
        demonstrations: How many demonstrations to collect.
        episodes: Paired evaluation episodes for every scheduler.
        processes: How many processes to use; all cores when not given.
        overwrite: Replace OUT if it exists.
    """
    from speedup_patch.artefacts import refuse_existing

    refuse_existing(out, overwrite)
    shutil.rmtree(out, ignore_errors=True)
    task = "aloha/insertion"
    data, patch = out / "demonstrations", out / "insertion.patch"
    print(f"1/4 collecting {demonstrations} demonstrations of {task}")
    collect(task, out=data, episodes=demonstrations, processes=processes)
    print("2/4 training a patch from them")
    train(data, robot="aloha", out=patch)
    print("3/4 checking it offline, on demonstrations it was not trained on")
    check(patch, data)
    print(f"4/4 running the robot: {episodes} episodes for every scheduler, on the same seeds")
    specs = ("base", "fixed:2", "fixed:3", f"speedcap:{patch}", f"mpc:{patch}", str(patch))
    evaluate(task, policy=f"bundled:{task}", scheduler=specs, out=out / "run", episodes=episodes, processes=processes)
    print(f"everything is in {out}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """Entry point of the console script."""
    try:
        app.cli(prog="sup", description="Make a learned robot policy faster, without retraining it.")
    except InputError as error:
        print(f"sup: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("sup: stopped", file=sys.stderr)
        sys.exit(130)
