"""Run folders to report on, made up without a simulator."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from speedup_patch.data import Decision, EpisodeResult, Stress
from speedup_patch.evaluation.compare import summarise
from speedup_patch.evaluation.episodes import episode_line
from speedup_patch.evaluation.run import FORMAT_VERSION
from speedup_patch.evaluation.seconds import Clock
from speedup_patch.evaluation.traces import Trace, pad_rows, write_trace
from speedup_patch.robots import ALOHA

CHUNK = 8


def episode(seed: int, rate: int, success: bool = True, reason: str | None = None) -> EpisodeResult:
    """An episode of some chunks of eight actions, each run at one rate; the second one fell back for ``reason``."""
    chunks = 5 + seed % 3
    executed = [CHUNK if number == 1 and reason else -(-CHUNK // rate) for number in range(chunks)]
    starts = np.cumsum([0, *executed[:-1]]).tolist()
    decisions = tuple(
        Decision(start, CHUNK, count, float(CHUNK), reason if number == 1 else None)
        for number, (start, count) in enumerate(zip(starts, executed, strict=True))
    )
    return EpisodeResult(seed, success, sum(executed), decisions)


def aloha_trace(result: EpisodeResult, seed: int = 0) -> Trace:
    """A trace of these decisions: ALOHA drifting about, both grippers closing half-way through."""
    rng = np.random.default_rng(seed)
    chunks = np.cumsum(rng.normal(0, 0.002, (len(result.decisions), CHUNK, ALOHA.action_size)), axis=1)
    grippers = [gripper.action for gripper in ALOHA.grippers]
    chunks[..., grippers] = 1.0
    chunks[len(chunks) // 2 :, :, grippers] = 0.0
    warps = [np.linspace(0, CHUNK, decision.executed + 1)[1:] for decision in result.decisions]
    parts = [chunk[np.ceil(warp).astype(int) - 1] for chunk, warp in zip(chunks, warps, strict=True)]
    actions = np.concatenate(parts).astype(np.float32)
    states = np.concatenate([actions[:1], actions])
    return Trace(
        states=states,
        actions=actions,
        decision_steps=np.array([decision.step for decision in result.decisions]),
        chunks=pad_rows(list(chunks)),
        positions=pad_rows(warps),
    )


def write_run(
    folder: Path,
    schedulers: dict[str, list[EpisodeResult]],
    *,
    env: str = "aloha/insertion",
    policy: str = "bundled:aloha/insertion",
    contents: dict[str, str] | None = None,
    results: bool = True,
    traces: bool = False,
    clock: Clock | None = None,
    delayed: dict[float, dict[str, list[EpisodeResult]]] | None = None,
) -> Path:
    """Writes a folder as ``sup eval`` leaves it, or without a ``clock`` as it did before it counted seconds."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"env": env, "policy": policy, "contents": contents or {}}))
    everything = [schedulers, *(delayed or {}).values()]
    lines = [episode_line(spec, result) for part in everything for spec, ran in part.items() for result in ran]
    (folder / "episodes.jsonl").write_text("".join(lines))
    if results:
        found = summarise(schedulers, np.random.default_rng(0), clock, delayed)
        seeds = [result.seed for ran in schedulers.values() for result in ran]
        document = {
            "format_version": FORMAT_VERSION,
            "env": env,
            "policy": policy,
            "episodes": len(set(seeds)),
            "first_seed": min(seeds),
        }
        document |= asdict(clock) if clock else {}
        document["schedulers"] = {spec: asdict(summary) for spec, summary in found.items()}
        (folder / "results.json").write_text(json.dumps(document))
    if traces:
        for spec, ran in schedulers.items():
            for result in ran:
                write_trace(folder, spec, result.seed, aloha_trace(result, result.seed))
    return folder


def three_schedulers(patch: str = "my.patch", seeds: int = 6) -> dict[str, list[EpisodeResult]]:
    """Base, a fixed rate that fails once, and a patch that falls back once in each episode."""
    return {
        "base": [episode(seed, 1) for seed in range(seeds)],
        "fixed:2": [episode(seed, 2, success=seed != 3) for seed in range(seeds)],
        patch: [episode(seed, 4, reason="unfamiliar state") for seed in range(seeds)],
    }


CLOCK = Clock(50.0, 900)


def felt(rate: int) -> Stress:
    """What an episode at this rate might do to a machine whose forces are not known."""
    return Stress(float(rate), rate / 2, 10.0 * rate**2, 100.0 * rate**3, None, None)


def write_timed_run(folder: Path) -> Path:
    """Three schedulers whose episodes tell of stress, at once and waiting for a policy that takes 0.1 s."""
    rates = {"base": 1, "fixed:2": 2, "my.patch": 4}
    immediate = {
        spec: [replace(result, stress=felt(rates[spec])) for result in ran] for spec, ran in three_schedulers().items()
    }
    waited = {spec: [_waiting(result) for result in ran] for spec, ran in immediate.items()}
    return write_run(folder, immediate, clock=CLOCK, delayed={0.1: waited})


def _waiting(result: EpisodeResult) -> EpisodeResult:
    stalled = 5 * len(result.decisions)
    return replace(result, latency=0.1, stalled=stalled, steps=result.steps + stalled)
