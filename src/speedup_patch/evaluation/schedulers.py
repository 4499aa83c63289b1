"""From the text of a scheduler, such as ``fixed:2`` or ``dwell+mpc:my.patch``, to a policy that runs it."""

from pathlib import Path

from speedup_patch.baselines import FixedRate, GreedyMpc, GripperDwell, OneRatePerChunk, SpeedCap
from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy, RateChooser
from speedup_patch.patch import Patch, ScheduledPolicy, SpeedupPatch, load_patch
from speedup_patch.robots import Robot

SPEC_HELP = "base, fixed:RATE, mpc:PATCH, speedcap:PATCH, a PATCH folder, or dwell+ before any of them"


def schedule_policy(spec: str, policy: ChunkPolicy, robot: Robot) -> ScheduledPolicy:
    """The policy, run by the scheduler that ``spec`` names."""
    if spec.startswith("dwell+"):
        inner = schedule_policy(spec.removeprefix("dwell+"), policy, robot)
        inner.scheduler = GripperDwell(inner.scheduler, robot)
        return inner
    kind, _, rest = spec.partition(":")
    if kind == "base" and not rest:
        return ScheduledPolicy(policy, robot, OneRatePerChunk(FixedRate(1.0)))
    if kind == "fixed" and rest:
        return ScheduledPolicy(policy, robot, OneRatePerChunk(FixedRate(_number(rest, spec))))
    if kind in ("mpc", "speedcap") and rest:
        patch = load_patch(Path(rest), robot)
        return _rule_policy(policy, patch, _rule(kind, patch))
    if Path(spec).is_dir():
        return SpeedupPatch(policy, load_patch(Path(spec), robot))
    raise InputError(f"unknown scheduler {spec!r}; a scheduler is {SPEC_HELP}")


def _rule(kind: str, patch: Patch) -> RateChooser:
    if kind == "mpc":
        return GreedyMpc(patch.world_model, patch.rates.rates, patch.epsilon)
    return SpeedCap(patch.world_model, patch.rates.rates, patch.speed_limit)


def _rule_policy(policy: ChunkPolicy, patch: Patch, chooser: RateChooser) -> ScheduledPolicy:
    rates = patch.rates.rates
    return ScheduledPolicy(
        policy,
        patch.robot,
        OneRatePerChunk(chooser, rates.tail),
        rotations=rates.rotations,
        guard=patch.guard,
        world_model=patch.world_model,
        chunk_length=patch.chunk_length,
    )


def _number(text: str, spec: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"scheduler {spec!r}: {text!r} is not a number; write for example fixed:2") from None
