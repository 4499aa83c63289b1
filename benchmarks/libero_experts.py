"""How often LIBERO's scripted experts succeed, disturbed as demonstrations are, and what that takes.

    make libero-experts            every task that has an expert, 20 starts each (two hours on one core)

Every task's starts are those of the last collection of demonstrations, which nobody makes: scenes placed anew, as
demonstrations have them, and experts have the time that demonstrations may take. The result is written after every
task, and tasks that are already in it with as many starts from there are left out, so that a stopped run goes on where
it was.
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
from speedup_patch.envs.seeds import FRESH, SEEDS_PER_COLLECTION
from speedup_patch.maths.statistics import wilson_interval

FIRST_SEED = FRESH - SEEDS_PER_COLLECTION


@dataclass(frozen=True)
class Settings:
    """Measure the experts."""

    tasks: tuple[str, ...] = tuple(SCRIPTS)
    """Names such as libero/spatial/0; all that have an expert when not given."""
    starts: int = 20
    """How many scenes of each task."""
    out: Path = Path("benchmarks/results/libero/experts.json")


def main(settings: Settings) -> None:
    results = json.loads(settings.out.read_text()) if settings.out.exists() else {"version": __version__, "tasks": {}}
    for name in settings.tasks:
        known = results["tasks"].get(name, {})
        if known.get("first_seed") == FIRST_SEED and len(known["solved"]) == settings.starts:
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
    for seed in range(FIRST_SEED, FIRST_SEED + starts):
        rng = np.random.default_rng(seed)
        episode = collect_episode(env, make_expert(env, rng), rng, seed)
        solved.append(episode is not None)
        if episode is not None:
            steps.append(len(episode) - LINGER_STEPS)
    env.close()
    return {
        "first_seed": FIRST_SEED,
        "successes": sum(solved),
        "success_interval": [round(bound, 3) for bound in wilson_interval(sum(solved), starts)],
        "steps_mean": round(float(np.mean(steps)), 1) if steps else None,
        "solved": solved,
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
