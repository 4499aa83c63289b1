"""From the text of a scheduler, such as ``fixed:2`` or ``dwell+mpc:my.patch``, to a policy that runs it."""

from dataclasses import replace
from pathlib import Path

from speedup_patch.baselines import FixedRate, GreedyMpc, GripperDwell, OneRatePerChunk, SpeedCap
from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy, RateChooser
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.retiming import Retiming, RetimingConfig
from speedup_patch.robots import Robot
from speedup_patch.runtime.engine import Engine, load_engine, patch_engine
from speedup_patch.runtime.patch_folder import LoadedPatch, load_patch

SPEC_HELP = "base, fixed:RATE, mpc:PATCH, speedcap:PATCH, retime:PATCH, a PATCH folder, or dwell+ before any of them"


def schedule_policy(spec: str, policy: ChunkPolicy, robot: Robot) -> ScheduledPolicy:
    """The policy, run by the scheduler that ``spec`` names."""
    return ScheduledPolicy(policy, find_engine(spec, robot))


def find_engine(spec: str, robot: Robot) -> Engine:
    """What decides for the scheduler that ``spec`` names."""
    if spec.startswith("dwell+"):
        inner = find_engine(spec.removeprefix("dwell+"), robot)
        return replace(inner, new_scheduler=lambda: GripperDwell(inner.new_scheduler(), robot))
    kind, _, rest = spec.partition(":")
    if kind == "base" and not rest:
        return _rule_engine(robot, FixedRate(1.0))
    if kind == "fixed" and rest:
        return _rule_engine(robot, FixedRate(_number(rest, spec)))
    if kind in ("mpc", "speedcap") and rest:
        patch = load_patch(Path(rest), robot)
        chooser = _rule(kind, patch)
        return replace(patch_engine(patch), new_scheduler=lambda: OneRatePerChunk(chooser, patch.rates.tail))
    if kind == "retime" and rest:
        patch = load_patch(Path(rest), robot)
        return replace(
            patch_engine(patch), new_scheduler=lambda: Retiming(patch.world_model, patch.limits, RetimingConfig())
        )
    if Path(spec).is_dir():
        return load_engine(Path(spec), robot)
    raise InputError(f"unknown scheduler {spec!r}; a scheduler is {SPEC_HELP}")


def _rule_engine(robot: Robot, chooser: RateChooser) -> Engine:
    return Engine(robot, lambda: OneRatePerChunk(chooser))


def _rule(kind: str, patch: LoadedPatch) -> RateChooser:
    if kind == "mpc":
        return GreedyMpc(patch.world_model, patch.rates, patch.epsilon, patch.measure)
    return SpeedCap(patch.world_model, patch.rates, patch.speed_limit)


def _number(text: str, spec: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"scheduler {spec!r}: {text!r} is not a number; write for example fixed:2") from None
