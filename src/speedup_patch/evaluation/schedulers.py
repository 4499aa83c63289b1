"""From the text of a scheduler (see specs.py) to a policy that runs it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from speedup_patch.acceleration import PLAIN
from speedup_patch.baselines import FixedRate, GreedyMpc, GripperDwell, OneRatePerChunk, SpeedCap, Tracked
from speedup_patch.candidates import Rates, Retimings
from speedup_patch.errors import InputError
from speedup_patch.evaluation.ablations import change_patch
from speedup_patch.evaluation.specs import SPEC_HELP, SchedulerSpec, parse_spec
from speedup_patch.interfaces import ChunkPolicy, RateChooser, Scheduler
from speedup_patch.keeping_up import find_keeping_up
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.retiming import Boldness, PlainLimits, Retiming
from speedup_patch.robots import Robot
from speedup_patch.runtime.engine import Engine
from speedup_patch.runtime.patch_folder import LoadedPatch, load_patch


def schedule_policy(spec: str, policy: ChunkPolicy, robot: Robot) -> ScheduledPolicy:
    """The policy, run by the scheduler that ``spec`` names."""
    return ScheduledPolicy(policy, find_engine(spec, robot))


def find_engine(spec: str, robot: Robot) -> Engine:
    """What decides for the scheduler that ``spec`` names."""
    parsed = parse_spec(spec)
    if parsed.kind == "patch" and not parsed.changes and not Path(str(parsed.patch)).is_dir():
        raise InputError(f"unknown scheduler {spec!r}; a scheduler is {SPEC_HELP}")
    try:
        engine = _find(parsed, robot)
    except InputError as error:
        raise InputError(f"scheduler {spec!r}: {error}") from error
    return (
        replace(engine, new_scheduler=lambda: GripperDwell(engine.new_scheduler(), robot)) if parsed.dwell else engine
    )


def _find(spec: SchedulerSpec, robot: Robot) -> Engine:
    if spec.patch is None:
        return _rule_engine(robot, FixedRate(1.0 if spec.rate is None else spec.rate))
    patch = load_patch(Path(spec.patch), robot)
    if spec.kind == "speedcap" and spec.changes:
        raise InputError("the speed cap takes nothing but a speed from its patch: there is nothing to change")
    if spec.kind in ("retime", "tracked") and isinstance(patch.choices, Rates):
        patch = replace(patch, choices=Retimings())
    variant = change_patch(patch, spec.changes)
    if spec.kind == "patch":
        return variant.engine()
    if spec.kind == "tracked":
        assert spec.rate is not None
        return _tracked_engine(variant.patch, spec.rate)
    engine = replace(variant.engine(), new_scheduler=lambda: SCHEDULERS[spec.kind](variant.patch))
    return replace(engine, keep_up=None, caution=None, merging=PLAIN) if spec.kind == "speedcap" else engine


def _rule_engine(robot: Robot, chooser: RateChooser) -> Engine:
    return Engine(robot, lambda: OneRatePerChunk(chooser))


def _tracked_engine(patch: LoadedPatch, rate: float) -> Engine:
    """A constant rate, and of the patch only what keeps joints on their path and reads grippers ahead."""
    keep_up = find_keeping_up(patch.world_model, patch.limits, patch.choices)
    inner, delays = OneRatePerChunk(FixedRate(rate)), patch.candidates.delays
    return Engine(
        patch.robot,
        lambda: Tracked(inner, patch.world_model, delays),
        chunk_length=patch.chunk_length,
        world_model=patch.world_model,
        keep_up=keep_up,
    )


def _greedy_mpc(patch: LoadedPatch) -> Scheduler:
    return GreedyMpc(patch.world_model, patch.candidates, patch.epsilon, patch.measure, patch.limits)


def _speed_cap(patch: LoadedPatch) -> Scheduler:
    return SpeedCap(patch.world_model, Rates(), patch.speed_limit)


def _plain_limits(patch: LoadedPatch) -> Scheduler:
    assert isinstance(patch.choices, Retimings)
    retiming = Retiming(patch.robot, patch.limits, patch.choices.common)
    return PlainLimits(patch.world_model, retiming, PLAIN_LEVEL)


SCHEDULERS: dict[str, Callable[[LoadedPatch], Scheduler]] = {
    "mpc": _greedy_mpc,
    "speedcap": _speed_cap,
    "retime": _plain_limits,
}
"""Schedulers without a learned part that read a patch folder."""

PLAIN_LEVEL = Boldness(4.0)
"""Nothing faster than demonstrated, no moment more than four times its pace."""
