"""Are a world model's counterfactuals true? Compares predicted with true deviation in the simulator.

    python benchmarks/counterfactual.py --env aloha/insertion --policy bundled:aloha/insertion --demos DATA

The policy runs in closed loop at 1x and at fixed faster rates, so that states are met that a patched robot would meet.
At every decision the simulator is saved, the chunk A and each accelerated A^k are executed for real, and the deviation
between them is compared with what every world model, trained on the demonstrations alone, foretold.
"""

import platform
import sys
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from speedup_patch import __version__
from speedup_patch.artefacts import write_json, write_text_atomically
from speedup_patch.bench.true_deviation import collect_decisions, predicted_deviations, score_groups, true_deviations
from speedup_patch.datasets import read_demonstrations
from speedup_patch.envs import make_env
from speedup_patch.envs.seeds import DEVELOPMENT
from speedup_patch.errors import InputError
from speedup_patch.limits import read_limits
from speedup_patch.policies import load_policy
from speedup_patch.progress import show_progress
from speedup_patch.relabel import Measure
from speedup_patch.training import choose_device
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
    first_seed: int = DEVELOPMENT
    epsilon: float = 0.02
    """The tolerance above which a deviation is a violation."""
    measure: Measure = "time_aligned"
    steps: int | None = None
    """Training steps of the networks; their own default when not given."""
    seed: int = 0
    device: str = "auto"
    out: Path = Path("benchmarks/results")


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
        f"Predicted against true deviation ({settings.measure}; state restored, A and A^k executed), "
        f"tolerance {settings.epsilon:g}; "
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
    limits = read_limits(env.robot, demonstrations)
    runs = [(rate, settings.first_seed + i) for rate in settings.driven for i in range(settings.episodes)]
    with show_progress() as report:
        decisions = collect_decisions(
            env, policy, settings.rates, runs, lambda done, total: report("decisions", done, total, {})
        )
        true = true_deviations(env.robot, limits, decisions, settings.rates, settings.measure)
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
            moments = decisions.moments(env.robot, model.memory)
            predicted = predicted_deviations(model, limits, moments, settings.rates, settings.measure)
            models[kind] = {
                "training_seconds": seconds,
                "held_out": held_out_figures,
                "scores": score_groups(decisions, true, predicted, settings.rates, settings.epsilon),
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
