"""From the text of a scheduler, such as ``fixed:2`` or ``dwell+mpc:my.patch``, to a policy that runs it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from speedup_patch.acceleration import PLAIN
from speedup_patch.baselines import FixedRate, GreedyMpc, GripperDwell, OneRatePerChunk, SpeedCap
from speedup_patch.candidates import Candidates, Rates, Retimings, bind
from speedup_patch.errors import InputError
from speedup_patch.interfaces import ChunkPolicy, RateChooser, Scheduler
from speedup_patch.patch import ScheduledPolicy
from speedup_patch.retiming import Boldness, PlainLimits, Retiming, RetimingConfig, joint_delays
from speedup_patch.robots import Robot
from speedup_patch.runtime.engine import Engine, load_engine, patch_engine
from speedup_patch.runtime.patch_folder import LoadedPatch, load_patch

SPEC_HELP = (
    "base, fixed:RATE, mpc:PATCH, speedcap:PATCH, retime:PATCH, a PATCH folder, without-keeping-up:PATCH, "
    "without-lead:PATCH, without-letting-go:PATCH, without-limit:PATCH, without-momentum:PATCH, "
    "without-retiming:PATCH, without-running-on:PATCH, without-second:PATCH, with-joint-lead:PATCH, or dwell+ before "
    "any of them"
)


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
    if kind in RULES and rest:
        patch = load_patch(Path(rest), robot)
        options = bind(Retimings(), patch.robot, patch.limits) if kind == "retime" else None
        engine = replace(patch_engine(patch, options), new_scheduler=lambda: RULES[kind](patch))
        return replace(engine, keep_up=None, caution=None, merging=PLAIN) if kind == "speedcap" else engine
    if kind.startswith("without-") and rest:
        patch = load_patch(Path(rest), robot)
        part = kind.removeprefix("without-")
        options = _ablated(patch, part, spec)
        unaware = FORGETTING[part](patch) if part in FORGETTING else patch
        return patch_engine(unaware, options, second_opinion=part != "second")
    if kind == "with-joint-lead" and rest:
        patch = load_patch(Path(rest), robot)
        return patch_engine(patch, _led(patch, spec))
    if Path(spec).is_dir():
        return load_engine(Path(spec), robot)
    raise InputError(f"unknown scheduler {spec!r}; a scheduler is {SPEC_HELP}")


def _rule_engine(robot: Robot, chooser: RateChooser) -> Engine:
    return Engine(robot, lambda: OneRatePerChunk(chooser))


RULES: dict[str, Callable[[LoadedPatch], Scheduler]] = {
    "mpc": lambda patch: GreedyMpc(patch.world_model, patch.candidates, patch.epsilon, patch.measure, patch.limits),
    "speedcap": lambda patch: SpeedCap(patch.world_model, Rates(), patch.speed_limit),
    "retime": lambda patch: PlainLimits(
        patch.world_model, Retiming(patch.robot, patch.limits, RetimingConfig()), PLAIN_LEVEL
    ),
}
"""Schedulers without a learned part that read a patch folder."""

PLAIN_LEVEL = Boldness(4.0)
"""Nothing faster than demonstrated, no moment more than four times its pace."""


PARTS = {"keeping-up": "keep_up", "lead": "gripper_lead", "limit": "gripper_limit", "momentum": "momentum"}
"""What a patch can be run without, and the switch of ``RetimingConfig`` that leaves it out."""


def _ablated(patch: LoadedPatch, part: str, spec: str) -> Candidates:
    """The patch's options with a part taken away; its critic judges whatever chunks it is shown."""
    choices = patch.choices
    if not isinstance(choices, Retimings):
        raise InputError(f"scheduler {spec!r}: only a patch that retimes has parts to leave out")
    if part in FORGETTING or part == "second":
        return patch.candidates
    if part == "retiming":
        return bind(Rates(), patch.robot, patch.limits, lead=choices.common.gripper_lead)
    if part not in PARTS:
        known = ", ".join([*PARTS, *FORGETTING])
        raise InputError(f"scheduler {spec!r}: what can be left out is {known}, retiming or second, not {part!r}")
    common = replace(choices.common, **{PARTS[part]: False})
    return bind(replace(choices, common=common), patch.robot, patch.limits)


def _led(patch: LoadedPatch, spec: str) -> Candidates:
    """The patch's options with joints read ahead by their lags instead of kept up."""
    choices = patch.choices
    if not isinstance(choices, Retimings) or not joint_delays(patch.robot, patch.limits):
        raise InputError(f"scheduler {spec!r}: only a patch that retimes and has measured lags of joints can lead them")
    common = replace(choices.common, keep_up=False, joint_lead=True)
    return bind(replace(choices, common=common), patch.robot, patch.limits)


def _not_running_on(patch: LoadedPatch) -> LoadedPatch:
    """The patch as if it did not know how far its arms run on along each axis, and how far they get in free motion."""
    arms = tuple(replace(arm, axis_lags=(), axis_gains=()) for arm in patch.limits.arms)
    return replace(patch, limits=replace(patch.limits, arms=arms))


def _not_letting_go(patch: LoadedPatch) -> LoadedPatch:
    """The patch as if it did not know that fingers press what they hold for a while after they are told to open."""
    grippers = tuple(replace(gripper, letting_go=0.0) for gripper in patch.limits.grippers)
    return replace(patch, limits=replace(patch.limits, grippers=grippers))


FORGETTING: dict[str, Callable[[LoadedPatch], LoadedPatch]] = {
    "letting-go": _not_letting_go,
    "running-on": _not_running_on,
}
"""What a patch can be run without by not knowing what was measured for it."""


def _number(text: str, spec: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"scheduler {spec!r}: {text!r} is not a number; write for example fixed:2") from None
