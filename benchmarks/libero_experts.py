"""How often LIBERO's scripted experts succeed, disturbed as demonstrations are, and what that takes.

    make libero-experts            every task that has an expert, 20 starts each (two hours on one core)

Every task's starts are those of its first evaluation seeds, LIBERO's initial states 0 .. 19, and experts have the time
that policies have, less the few steps that are recorded after success (demonstrations that take more than two thirds
of it are not collected). The result is written after every task, and tasks that are already in it are left out, so
that a stopped run goes on where it was.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from speedup_patch import __version__
from speedup_patch.envs import make_env, make_expert
from speedup_patch.envs.collect import LINGER_STEPS, collect_episode
from speedup_patch.envs.libero_scripts import SCRIPTS
from speedup_patch.maths.statistics import wilson_interval


@dataclass(frozen=True)
class Settings:
    """Measure the experts."""

    tasks: tuple[str, ...] = tuple(SCRIPTS)
    """Names such as libero/spatial/0; all that have an expert when not given."""
    starts: int = 20
    """How many initial states of each task."""
    out: Path = Path("benchmarks/results/libero/experts.json")


def main(settings: Settings) -> None:
    results = json.loads(settings.out.read_text()) if settings.out.exists() else {"version": __version__, "tasks": {}}
    for name in settings.tasks:
        if len(results["tasks"].get(name, {}).get("solved", ())) == settings.starts:
            continue
        results["tasks"][name] = measure(name, settings.starts)
        settings.out.parent.mkdir(parents=True, exist_ok=True)
        settings.out.write_text(json.dumps(results, indent=1) + "\n")
        found = results["tasks"][name]
        print(f"{name}: {found['successes']}/{settings.starts}, {found['steps_mean']} steps", flush=True)


def measure(name: str, starts: int) -> dict[str, object]:
    """One task: from which starts the expert succeeds, and its steps until success."""
    env, began = make_env(name), time.perf_counter()
    solved, steps = [], []
    for seed in range(starts):
        rng = np.random.default_rng(seed)
        episode = collect_episode(env, make_expert(env, rng), rng, seed, share=1.0)
        solved.append(episode is not None)
        if episode is not None:
            steps.append(len(episode) - LINGER_STEPS)
    env.close()
    return {
        "successes": sum(solved),
        "success_interval": [round(bound, 3) for bound in wilson_interval(sum(solved), starts)],
        "steps_mean": round(float(np.mean(steps)), 1) if steps else None,
        "solved": solved,
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
