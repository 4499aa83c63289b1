"""Are a world model's counterfactuals true? Compares predicted with true deviation in the simulator.

    python benchmarks/counterfactual.py --env aloha/insertion --policy bundled:aloha/insertion --demos DATA

The policy runs in closed loop at 1x and at fixed faster rates, so that states are met that a patched robot would meet.
At every decision the simulator is saved, the chunk A and each accelerated A^k are executed for real, and the deviation
between them is compared with what every world model, trained on the demonstrations alone, foretold.
"""

import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from jaxtyping import Bool, Float, Int

from speedup_patch import __version__
from speedup_patch.acceleration import accelerate
from speedup_patch.artefacts import write_json, write_text_atomically
from speedup_patch.datasets import read_demonstrations
from speedup_patch.envs import make_env
from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy, Env
from speedup_patch.maths.deviation import time_aligned_deviation
from speedup_patch.maths.statistics import auroc, missed_violation_share, spearman
from speedup_patch.observations import observe
from speedup_patch.policies import load_policy
from speedup_patch.progress import show_progress
from speedup_patch.relabel import Rates, predict_counterfactuals
from speedup_patch.training import choose_device
from speedup_patch.warp import uniform_warp
from speedup_patch.world_model.config import Kind, WorldModelConfig
from speedup_patch.world_model.training import train_world_model


@dataclass(frozen=True)
class Settings:
    """What to measure."""

    demos: Path
    """Demonstrations to train the world models on."""
    env: str = "aloha/insertion"
    policy: str = "bundled:aloha/insertion"
    models: tuple[Kind, ...] = ("servo", "gru", "mlp")
    rates: tuple[float, ...] = (2.0, 3.0, 4.0)
    """Rates whose deviation is foretold."""
    driven: tuple[float, ...] = (1.0, 2.0, 3.0)
    """Fixed rates at which the policy runs to meet states; 1 gives the states of the unpatched robot."""
    episodes: int = 20
    """Episodes per driven rate, on seeds ``first_seed``, ``first_seed`` + 1, ..."""
    first_seed: int = 50_000
    epsilon: float = 0.02
    """The tolerance above which a deviation is a violation."""
    steps: int | None = None
    """Training steps of the networks; their own default when not given."""
    seed: int = 0
    device: str = "auto"
    out: Path = Path("benchmarks/results")


@dataclass(frozen=True)
class Decisions:
    """N moments at which the policy was asked, and what each of R rates truly did from there."""

    observations: Float[np.ndarray, "N O"]
    chunks: Float[np.ndarray, "N n A"]
    true: Float[np.ndarray, "N R"]
    driven: Float[np.ndarray, " N"]
    """The rate at which this episode ran."""
    first: Bool[np.ndarray, " N"]
    """Whether this is the first chunk of its episode."""
    seed: Int[np.ndarray, " N"]


def collect_decisions(
    settings: Settings, env: Env, policy: ChunkPolicy, report: Callable[[int, int], None]
) -> Decisions:
    """Every decision of every episode, with the true deviation at each rate."""
    rows: list[dict[str, Any]] = []
    runs = [(rate, settings.first_seed + i) for rate in settings.driven for i in range(settings.episodes)]
    for done, (rate, seed) in enumerate(runs, start=1):
        for step, row in enumerate(_run_episode(settings, env, policy, rate, seed)):
            rows.append(row | {"driven": rate, "first": step == 0, "seed": seed})
        report(done, len(runs))
    return Decisions(**{name: np.array([row[name] for row in rows]) for name in rows[0]})


def _run_episode(
    settings: Settings, env: Env, policy: ChunkPolicy, rate: float, seed: int
) -> Iterator[dict[str, np.ndarray]]:
    observation = env.reset(seed)
    policy.reset()
    steps, success = 0, False
    while steps < env.max_steps and not success:
        chunk = policy.infer(observation)
        o = observe(env.robot, observation["state"], observation["previous_state"])
        yield {"observations": o, "chunks": chunk, "true": true_deviations(env, chunk, settings.rates)}
        for action in accelerate(env.robot, chunk, uniform_warp(len(chunk), rate)).actions:
            observation, success = env.step(action)
            steps += 1
            if success:
                break


def true_deviations(env: Env, chunk: Float[np.ndarray, "n A"], rates: tuple[float, ...]) -> Float[np.ndarray, " R"]:
    """The deviation of each rate, executed from this moment; the environment is left as it was."""
    moment = env.save()
    start = env.robot.poses(env.restore(moment)["state"])

    def execute(actions: Float[np.ndarray, "l A"]) -> Float[np.ndarray, "l arms 7"]:
        env.restore(moment)
        return env.robot.poses(np.stack([env.step(action)[0]["state"] for action in actions]))

    reference = execute(chunk)
    deviations: list[float] = []
    for rate in rates:
        warp = uniform_warp(len(chunk), rate)
        accelerated = execute(accelerate(env.robot, chunk, warp).actions)
        deviations.append(float(time_aligned_deviation(start, reference, accelerated, warp.positions)))
    env.restore(moment)
    return np.array(deviations)


def score(true: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"], epsilon: float) -> dict[str, float | None]:
    """How well predictions agree with the truth; None where the data cannot tell."""
    violating = true > epsilon
    calm = ~violating
    figures = {
        "decisions": float(len(true)),
        "spearman": spearman(true, predicted),
        "mean_absolute_error": float(np.abs(predicted - true).mean()),
        "bias": float((predicted - true).mean()),
        "violation_auroc": auroc(violating, predicted),
        "missed_violation_share": missed_violation_share(true, predicted, epsilon),
        "false_alarm_share": float((predicted[calm] > epsilon).mean()) if calm.any() else np.nan,
        "violation_share": float(violating.mean()),
        "true_mean": float(true.mean()),
    }
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}


def score_groups(settings: Settings, decisions: Decisions, predicted: Float[np.ndarray, "N R"]) -> dict[str, Any]:
    """Scores per group of states, and there per rate and pooled over rates."""
    groups = {
        "1x states": (decisions.driven == 1.0) & ~decisions.first,
        "accelerated states": (decisions.driven > 1.0) & ~decisions.first,
        "first chunks": decisions.first,
    }
    table: dict[str, Any] = {}
    for name, rows in groups.items():
        if not rows.any():
            continue
        true, guess = decisions.true[rows], predicted[rows]
        table[name] = {
            f"{rate:g}": score(true[:, r], guess[:, r], settings.epsilon) for r, rate in enumerate(settings.rates)
        } | {"pooled": score(true.ravel(), guess.ravel(), settings.epsilon)}
    return table


COLUMNS = {
    "n": ("decisions", "{:.0f}"),
    "Spearman": ("spearman", "{:.3f}"),
    "MAE": ("mean_absolute_error", "{:.4f}"),
    "bias": ("bias", "{:+.4f}"),
    "AUROC": ("violation_auroc", "{:.3f}"),
    "violations": ("violation_share", "{:.2f}"),
    "missed": ("missed_violation_share", "{:.2f}"),
    "false alarms": ("false_alarm_share", "{:.2f}"),
}
"""Column title -> the figure in it, and how it is written."""


def markdown(settings: Settings, models: dict[str, Any], command: str) -> str:
    """The scores as one table, with the command that made them."""
    rows = [
        (model, group, rate, *(_cell(figures[name], form) for name, form in COLUMNS.values()))
        for model, result in models.items()
        for group, rates in result["scores"].items()
        for rate, figures in rates.items()
    ]
    titles = ("model", "states", "rate", *COLUMNS)
    lines = [titles, ("---",) * 2 + ("---:",) * (len(titles) - 2), *rows]
    trained = ", ".join(f"{name} {result['training_seconds']:.0f} s" for name, result in models.items())
    return (
        f"# Counterfactual deviation, {settings.env}\n\n"
        f"Predicted against true deviation (state restored, A and A^k executed), tolerance {settings.epsilon:g}; "
        f"policy `{settings.policy}`, driven at {', '.join(f'{rate:g}x' for rate in settings.driven)}, "
        f"{settings.episodes} episodes each. Training took: {trained}.\n\n"
        f"    {command}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    )


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def measure(settings: Settings) -> dict[str, Any]:
    """Everything: decisions, world models, scores."""
    env, policy = make_env(settings.env), load_policy(settings.policy)
    demonstrations = read_demonstrations(settings.demos)
    device = choose_device(settings.device)
    with show_progress() as report:
        decisions = collect_decisions(settings, env, policy, lambda done, total: report("decisions", done, total, {}))
        training, held_out = demonstrations.split(0.1, np.random.default_rng(settings.seed))
        models: dict[str, Any] = {}
        for kind in settings.models:
            config = WorldModelConfig(kind, horizon=decisions.chunks.shape[1])
            changes = {"seed": settings.seed} | ({"steps": settings.steps} if settings.steps else {})
            config = replace(config, loop=replace(config.resolved_loop(kind), **changes))
            started = time.perf_counter()
            model, held_out_figures = train_world_model(
                training, held_out, env.robot, config, device=device, report=report
            )
            seconds = time.perf_counter() - started
            predicted = predict_counterfactuals(
                model, decisions.observations, decisions.chunks, Rates(settings.rates)
            ).deviations
            models[kind] = {
                "training_seconds": seconds,
                "held_out": held_out_figures,
                "scores": score_groups(settings, decisions, predicted),
            }
    env.close()
    return models


def main(settings: Settings) -> None:
    """Measures and writes counterfactual_ENV.json and .md."""
    models = measure(settings)
    # Where things lie on this machine says nothing to others.
    words = [Path(word).name if Path(word) in (settings.demos, settings.out) else word for word in sys.argv[1:]]
    command = " ".join(["python benchmarks/counterfactual.py", *words])
    document = {
        "command": command,
        "settings": asdict(settings) | {"demos": settings.demos.name, "out": settings.out.name},
        "versions": {"speedup_patch": __version__}
        | {name: version(name) for name in ("numpy", "scipy", "torch", "mujoco")},
        "python": platform.python_version(),
        "models": models,
    }
    name = f"counterfactual_{settings.env.replace('/', '_')}"
    write_json(settings.out / f"{name}.json", document)
    write_text_atomically(settings.out / f"{name}.md", markdown(settings, models, command))


if __name__ == "__main__":
    try:
        main(tyro.cli(Settings, description=__doc__))
    except InputError as error:
        sys.exit(f"error: {error}")
