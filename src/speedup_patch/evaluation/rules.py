"""Every rule that a patch runs by, and the patch without it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from speedup_patch.candidates import Rates, Retimings
from speedup_patch.retiming import Boldness
from speedup_patch.runtime.engine import Engine, patch_engine
from speedup_patch.runtime.patch_folder import LoadedPatch

NEVER = 1e9
"""Seconds, or multiples of anything that a robot does, which none gets to."""


@dataclass(frozen=True)
class Variant:
    """A patch, and which of the things that watch over it take part."""

    patch: LoadedPatch
    guard: bool = True
    caution: bool = True
    without_cautions: tuple[str, ...] = ()
    """Switches of ``Caution`` that are off."""
    second_opinion: bool = True

    def engine(self) -> Engine:
        """What runs it."""
        engine = patch_engine(self.patch, second_opinion=self.second_opinion)
        caution = engine.caution if self.caution else None
        if caution is not None:
            caution = replace(caution, **dict.fromkeys(self.without_cautions, False))
        return replace(engine, guard=engine.guard if self.guard else None, caution=caution)


@dataclass(frozen=True)
class Rule:
    """Something that a patch does at run time, and the same patch without it."""

    meaning: str
    """What is left out."""
    applies: Callable[[LoadedPatch], bool]
    """Whether the patch does it at all."""
    leave_out: Callable[[Variant], Variant]


def _always(_: LoadedPatch) -> bool:
    return True


def _retimes(patch: LoadedPatch) -> bool:
    return isinstance(patch.choices, Retimings)


def _tracks(patch: LoadedPatch) -> bool:
    """Whether joints that are servos are kept on their path."""
    return _retimes(patch) and bool(patch.limits.pulls)


def _commands_deltas(patch: LoadedPatch) -> bool:
    """Whether arms are commanded by delta actions."""
    return _retimes(patch) and any(arm.gain > 0 for arm in patch.limits.arms)


def _has_grippers(patch: LoadedPatch) -> bool:
    return _retimes(patch) and bool(patch.limits.grippers)


def _jumps(patch: LoadedPatch) -> bool:
    """Whether some gripper's commands to close jump."""
    return _retimes(patch) and any(gripper.closing.jumps for gripper in patch.limits.grippers)


def _knows_axis_lags(patch: LoadedPatch) -> bool:
    return _commands_deltas(patch) and any(arm.axis_lags for arm in patch.limits.arms)


def _knows_release_delay(patch: LoadedPatch) -> bool:
    return _commands_deltas(patch) and any(gripper.letting_go for gripper in patch.limits.grippers)


def _pauses(patch: LoadedPatch) -> bool:
    """Whether it is known how slow arms are before their grippers open or close."""
    strokes = [stroke for gripper in patch.limits.grippers for stroke in (gripper.opening, gripper.closing)]
    return _commands_deltas(patch) and any(stroke.approach is not None for stroke in strokes)


def _grips_early(patch: LoadedPatch) -> bool:
    return _pauses(patch) and _knows_axis_lags(patch)


def change_retiming(patch: LoadedPatch, **values: Any) -> LoadedPatch:
    choices = patch.choices
    assert isinstance(choices, Retimings)
    return replace(patch, choices=replace(choices, common=replace(choices.common, **values)))


def _retiming_with(**values: Any) -> Callable[[Variant], Variant]:
    return lambda variant: replace(variant, patch=change_retiming(variant.patch, **values))


def change_tuning(patch: LoadedPatch, part: str, **values: Any) -> LoadedPatch:
    """The patch with other hand-chosen numbers in ``Tuning.watch`` or ``Tuning.deviation``."""
    tuning = patch.limits.tuning
    changed = replace(tuning, **{part: replace(getattr(tuning, part), **values)})
    return replace(patch, limits=replace(patch.limits, tuning=changed))


def _watch_with(**values: Any) -> Callable[[Variant], Variant]:
    return lambda variant: replace(variant, patch=change_tuning(variant.patch, "watch", **values))


def _caution_without(switch: str) -> Callable[[Variant], Variant]:
    return lambda variant: replace(variant, without_cautions=(*variant.without_cautions, switch))


def _at_constant_rates(variant: Variant) -> Variant:
    patch = change_retiming(variant.patch, constant=True)
    assert isinstance(patch.choices, Retimings)
    levels = tuple(Boldness(rate) for rate in Rates().values)
    return replace(variant, patch=replace(patch, choices=replace(patch.choices, levels=levels)))


def _without_axis_lags(variant: Variant) -> Variant:
    limits = variant.patch.limits
    arms = tuple(replace(arm, axis_lags=(), axis_gains=()) for arm in limits.arms)
    return replace(variant, patch=replace(variant.patch, limits=replace(limits, arms=arms)))


def _without_release_delay(variant: Variant) -> Variant:
    limits = variant.patch.limits
    grippers = tuple(replace(gripper, letting_go=0.0) for gripper in limits.grippers)
    return replace(variant, patch=replace(variant.patch, limits=replace(limits, grippers=grippers)))


RULES: dict[str, Rule] = {
    "retiming": Rule(
        "rates that change within a chunk: the critic chooses one of 1, 2, 3 and 4 for the whole chunk, all else stays",
        _retimes,
        _at_constant_rates,
    ),
    "path-tracking": Rule("targets that keep joints on their path", _tracks, _retiming_with(keep_up=False)),
    "largest-rate": Rule("the largest rate of joints that are servos", _tracks, _retiming_with(joint_rate=math.inf)),
    "gripper-lead": Rule("reading gripper commands ahead", _has_grippers, _retiming_with(gripper_lead=False)),
    "gripper-limit": Rule("the limits on fingers", _has_grippers, _retiming_with(gripper_limit=False)),
    "settle": Rule("the time that fingers get to grip once they have stopped", _jumps, _retiming_with(settle=0.0)),
    "change-limit": Rule("gradual changes of the rate", _retimes, _retiming_with(change=math.inf)),
    "slack": Rule("limits that give way to make whole commands", _retimes, _retiming_with(slack=0.0)),
    "leave-rest": Rule("leaving a short last command to the next chunk", _retimes, _retiming_with(leave_rest=False)),
    "straight-cuts": Rule(
        "cutting all axes of a summed motion by one share", _commands_deltas, _retiming_with(straight=False)
    ),
    "turn-limit": Rule("the limit on turns", _commands_deltas, _retiming_with(turn=math.inf)),
    "momentum": Rule(
        "taking what an arm's momentum makes off its commands", _commands_deltas, _retiming_with(momentum=0.0)
    ),
    "guard": Rule(
        "running chunks unchanged that are unlike the demonstrations", _always, lambda v: replace(v, guard=False)
    ),
    "second": Rule(
        "the world model's second opinion on chunks that the critic would leave as they are",
        _commands_deltas,
        lambda variant: replace(variant, second_opinion=False),
    ),
    "caution": Rule(
        "everything that watches arms that are commanded by deltas",
        _commands_deltas,
        lambda v: replace(v, caution=False),
    ),
    "blocked": Rule(
        "noticing that an arm is blocked",
        _commands_deltas,
        _watch_with(least_displacement=NEVER, least_command=NEVER),
    ),
    "blocked-predicted": Rule(
        "noticing that an arm falls short of what the world model predicted",
        _commands_deltas,
        _watch_with(least_displacement=NEVER),
    ),
    "blocked-commanded": Rule(
        "noticing that an arm falls short of what its commands make in free motion",
        _knows_axis_lags,
        _watch_with(least_command=NEVER),
    ),
    "short-attempts": Rule(
        "asking the policy of a blocked arm again after a few commands: whole chunks run",
        _commands_deltas,
        _watch_with(attempt_seconds=NEVER),
    ),
    "pauses": Rule("slowing down before a gripper opens or closes", _pauses, _watch_with(rush=NEVER)),
    "early-gripper": Rule(
        "commanding a gripper while its arm is still on the way", _grips_early, _caution_without("early_gripper")
    ),
    "remaining-displacement": Rule(
        "adding to the commands what an arm would stop short by when its gripper opens or closes",
        _grips_early,
        _caution_without("remaining_displacement"),
    ),
    "unbroken-gripper": Rule(
        "leaving fingers alone that are still opening or closing", _grips_early, _caution_without("unbroken_gripper")
    ),
    "coasting": Rule("knowing how far an arm coasts along each axis", _knows_axis_lags, _without_axis_lags),
    "release-delay": Rule(
        "waiting for fingers to release what they hold", _knows_release_delay, _without_release_delay
    ),
}
"""Every rule that can be left out, by the name that follows ``without-``."""


def rules_of(patch: LoadedPatch) -> list[str]:
    """The names of the rules that this patch follows."""
    return [name for name, rule in RULES.items() if rule.applies(patch)]
