"""``sup train``."""

import shutil
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import tyro

from speedup_patch.commands.reading import Datasets, ReadingOptions, left_out_json, robot_at_data_rate
from speedup_patch.commands.terminal import print_json
from speedup_patch.errors import InputError


def train(
    datasets: Datasets,
    *,
    reading: tyro.conf.OmitArgPrefixes[ReadingOptions] = ReadingOptions(),  # noqa: B008
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
    tensorboard: bool = True,
    resume: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Train a patch from demonstrations alone.

    Args:
        datasets: One or several data sets of one robot: LeRobot or RLDS folders, HDF5 files or folders, .npz files.
        reading: What is read.
        robot: Name of the robot, such as aloha, or a .toml file that describes it.
        out: Folder to write the patch to.
        preset: default, or one of the paper's settings: bigym, libero, real; libero-velocity is the paper's for LIBERO
            with a world model that sees velocity.
        chunk: How many actions your policy predicts at a time.
        rates: Rates to choose from, such as 1,2,3,4.
        epsilon: Largest end-effector deviation that still counts as the same motion.
        world_model: gru, mlp or servo; auto picks the one that fits the robot.
        steps: Most training steps for each network, instead of the preset's.
        device: auto, cpu, cuda or mps.
        seed: Everything random follows from it.
        tensorboard: Write TensorBoard files: OUT.training/events while it runs, OUT/training when it is done.
        resume: Go on with a run that was stopped.
        overwrite: Replace OUT if it exists.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.artefacts import refuse_existing
    from speedup_patch.event_files import write_events
    from speedup_patch.pipeline import train_patch
    from speedup_patch.progress import show_progress
    from speedup_patch.reporting import silent, together
    from speedup_patch.robots import find_robot
    from speedup_patch.training import choose_device

    refuse_existing(out, overwrite)
    config = _training_config(robot, preset, chunk, rates, epsilon, world_model, steps, seed)
    if chunk is None and not json:
        print(f"chunks of {config.chunk_length} actions, the preset's; give your policy's own with --chunk")
    workspace = out.with_name(f"{out.name}.training")
    if workspace.exists() and not resume:
        shutil.rmtree(workspace)
    described, chosen_device = find_robot(robot), choose_device(device)
    read = reading.read(datasets, described)
    events = workspace / "events" if tensorboard and _can_write_events() else None
    with (
        show_progress(quiet=json) as shown,
        write_events(events) if events else nullcontext(silent) as written,
    ):
        patch = train_patch(
            read.demonstrations,
            robot_at_data_rate(described, read),
            config,
            device=chosen_device,
            workspace=workspace,
            resume=resume,
            report=together(shown, written),
        )
    selected = {"selection": asdict(reading), "left_out": [bad.number for bad in read.left_out]}
    patch.description.provenance["data"].update(selected)
    patch.save(out, overwrite, events)
    shutil.rmtree(workspace, ignore_errors=True)
    if json:
        print_json({"out": str(out), **patch.description.provenance, "left_out": left_out_json(read)})
        return
    figures = patch.description.provenance["held_out"]["scheduler"]
    print(f"patch -> {out}")
    print(f"held-out states: mean rate {figures['rate_mean']:.2f}, violating choices {figures['violating']:.1%}")
    if not config.penalty_is_safe:
        print(f"note: penalty {config.penalty:g} is below the bound that guarantees safety (the paper's own setting)")


def _can_write_events() -> bool:
    from speedup_patch.event_files import can_write_events

    if can_write_events():
        return True
    note = "note: no TensorBoard files, for tensorboardX is not installed (pip install 'speedup-patch[train]')"
    print(note, file=sys.stderr)
    return False


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
    from speedup_patch.candidates import Rates
    from speedup_patch.presets import find_preset
    from speedup_patch.robots import find_robot
    from speedup_patch.world_model.training import resolve_kind

    config = replace(find_preset(preset), seed=seed)
    choices = config.choices
    if rates is not None:
        whole = choices if isinstance(choices, Rates) else Rates()
        config = replace(config, choices=replace(whole, values=_numbers(rates)))
    elif chunk is not None and chunk > 1 and isinstance(choices, Rates):  # no room for the fastest in a short chunk
        values = tuple(value for value in choices.values if value <= chunk)
        config = replace(config, choices=replace(choices, values=values))
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
