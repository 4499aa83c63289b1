"""Numbers that were chosen by hand for a running patch and for its labels: what each is, and what it rests on.

A patch records them, and runs by what it records. What is chosen by hand for retimings is in ``RetimingConfig``.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any

from speedup_patch.errors import InputError
from speedup_patch.maths.deviation import STROKE_REACH


@dataclass(frozen=True)
class WatchTuning:
    """When an arm that is sent motions counts as blocked or as too fast for its gripper, and what then runs."""

    stalled: float = 0.5
    """An arm is blocked when it gets less than this share of the displacement that was predicted. No evidence yet."""
    least_displacement: float = 0.3
    """Predicted displacements below this share of one step at the arm's own speed say nothing. No evidence yet."""
    resisted: float = 0.25
    """An arm is blocked, too, when it gets less than this share of the displacement that its commands make where
    nothing holds it: demonstrations of pushing have taught the world model to expect no better. For a second test at
    all: docs/libero.md, "Contact"; for the share: no evidence yet."""
    least_command: float = 1.0
    """Such displacements say nothing where they are shorter than this many times what the largest command along one
    axis makes, or than one step at the arm's own speed if that is less: action limits may be typed in generously. No
    evidence yet."""
    rush: float = 1.33
    """An arm is too fast to use its gripper beyond this many times its demonstrated approach. No evidence yet."""
    pause_seconds: float = 0.1
    """How long a chunk runs as it is before the policy of an arm that was too fast is asked again. No evidence yet."""
    longest_pause_seconds: float = 0.6
    """How long that policy is asked again and again before its gripper may open or close. No evidence yet."""
    attempt_seconds: float = 0.15
    """How long a chunk runs as it is, where the arm is blocked, before the policy is asked again. Against all of it:
    docs/libero.md, "Contact"."""
    short_attempts: int = 3
    """How often that is tried before all of a chunk runs as it is. Against always: docs/libero.md, "Contact"."""
    longest_watch_seconds: float = 1.0
    """Commands too small to say whether the arm is blocked are taken together with those after them, for so long. No
    evidence yet."""
    free: float = 0.25
    """A gripper follows its command freely when it is no further from it than this share of its range. No evidence
    yet."""
    gave_way: float = 0.05
    """Fingers have let go when they are further open than they held something by this share of their range. No
    evidence yet."""

    def __post_init__(self) -> None:
        _refuse_impossible(self)


@dataclass(frozen=True)
class DeviationTuning:
    """What counts as straying, in labels and in decisions."""

    tolerated_seconds: float = 0.15
    """How much of its own motion a robot may be away from its path. Chosen on development seeds of both simulators:
    docs/libero.md, "The tolerance"."""
    stroke_tolerances: float = 6.0
    """Fingers that are out of step by a whole opening or closing count as much as straying by this many tolerances. No
    evidence yet."""
    jumping: float = 0.5
    """Fingers whose commands jump count for this share of that: no retiming hurries them, so they are only early or
    late. No evidence yet."""
    stroke_reach: float = STROKE_REACH
    """Places this far apart (the paper's d; 0.005 is a centimetre) are told apart as if a whole opening or closing lay
    between them. No evidence yet."""

    def __post_init__(self) -> None:
        _refuse_impossible(self)


@dataclass(frozen=True)
class Tuning:
    """All of them."""

    watch: WatchTuning = field(default_factory=WatchTuning)
    deviation: DeviationTuning = field(default_factory=DeviationTuning)


def tuning_from_json(document: Any) -> Tuning:
    """Rebuilds what ``dataclasses.asdict`` and JSON make of it; what a patch does not name, as those from before this
    was recorded, is as it is here. KeyError or TypeError where it names what is not known."""
    return Tuning(WatchTuning(**document.get("watch", {})), DeviationTuning(**document.get("deviation", {})))


def _refuse_impossible(tuning: WatchTuning | DeviationTuning) -> None:
    for part in fields(tuning):
        value = getattr(tuning, part.name)
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InputError(f"{part.name} must be a positive number, not {value!r}")
