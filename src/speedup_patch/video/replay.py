"""An episode as its trace says it happened, run again in the simulator."""

from pathlib import Path

import numpy as np

from speedup_patch.data import EpisodeResult
from speedup_patch.envs import make_env
from speedup_patch.errors import InputError
from speedup_patch.evaluation.episodes import read_episodes
from speedup_patch.evaluation.traces import read_trace, trace_file
from speedup_patch.interfaces import Env

TOLERANCE = 1e-3
"""How far (metres, radians) a state may be from the trace's: simulators repeat themselves, so it is rounding only."""


def find_seed(run: Path, specs: tuple[str, ...]) -> int:
    """The first seed that all these schedulers have a trace of, if possible one at which all of them succeeded."""
    episodes = read_episodes(run / "episodes.jsonl")
    outcomes = [{result.seed: result.success for result in _episodes_of(spec, episodes, run)} for spec in specs]
    traced = [
        seed
        for seed in sorted(set.intersection(*map(set, outcomes)))
        if all(trace_file(run, spec, seed).exists() for spec in specs)
    ]
    if not traced:
        raise InputError(f"{run} has no seed with traces of {' and '.join(specs)}; run `sup eval` again in a new --out")
    return next((seed for seed in traced if all(outcome[seed] for outcome in outcomes)), traced[0])


def find_result(run: Path, spec: str, seed: int) -> EpisodeResult:
    """How this episode went."""
    results = _episodes_of(spec, read_episodes(run / "episodes.jsonl"), run)
    found = next((result for result in results if result.seed == seed), None)
    if found is None:
        raise InputError(f"{run} has no episode of {spec} with seed {seed}; it has {[r.seed for r in results]}")
    return found


def _episodes_of(spec: str, episodes: dict[str, list[EpisodeResult]], run: Path) -> list[EpisodeResult]:
    if spec not in episodes:
        known = ", ".join(episodes) or "none"
        raise InputError(f"{run} holds no episodes of scheduler {spec!r}; it holds: {known}")
    return episodes[spec]


class Replay:
    """One episode of a run, sent to its environment again and compared with its trace at every step."""

    def __init__(self, run: Path, env: str, spec: str, seed: int) -> None:
        self.result = find_result(run, spec, seed)
        self.spec = spec
        self.path = trace_file(run, spec, seed)
        self.trace = read_trace(self.path)
        self.env: Env = make_env(env)
        self._check(self.env.reset(seed)["state"], 0)
        self._step = 0

    def advance(self, step: int) -> None:
        """Sends actions until ``step`` of them were sent; the episode's end stays as it is."""
        while self._step < min(step, len(self.trace)):
            observation, _ = self.env.step(self.trace.actions[self._step])
            self._step += 1
            self._check(observation["state"], self._step)

    def _check(self, state: np.ndarray, step: int) -> None:
        expected = self.trace.states[step]
        if state.shape != expected.shape:
            raise InputError(f"{self.path} has {len(expected)} numbers a state, but {self.env.name} has {len(state)}")
        worst = int(np.abs(state - expected).argmax())
        if not abs(state[worst] - expected[worst]) <= TOLERANCE:
            raise InputError(
                f"{self.path} cannot be replayed: at step {step} {self.env.robot.state_names[worst]} is "
                f"{state[worst]:.4f} instead of {expected[worst]:.4f}. The run was made with another version of the "
                "simulator; evaluate again in a new --out"
            )
