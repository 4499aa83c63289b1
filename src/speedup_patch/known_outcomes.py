"""What came of figures like these in closed loop, on robots that nobody tuned for: what a check cannot know by itself.

`sup bench strangers` measures it, `benchmarks/known_outcomes.py` puts it into the package.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from speedup_patch.check import PatchCheck

ASSET = Path(__file__).parent / "assets" / "known_outcomes.json"
LOSS = 0.05
"""Success that a robot may lose against its unpatched policy before it counts as having lost."""


@dataclass(frozen=True)
class Outcome:
    """One robot: what was predicted for its patch from demonstrations alone, and what happened."""

    robot: int
    predicted_speedup: float
    predicted_violating: float
    """Share of choices beyond the tolerance, in states as demonstrated or reached at speed, whichever is more."""
    speedup: float | None
    """In control steps, over the episodes that patch and unpatched policy both solved; None where there were none."""
    success_change: float
    """Success of the patch minus success of the unpatched policy."""

    @property
    def lost(self) -> bool:
        """Whether the patch lost success beyond ``LOSS``."""
        return self.success_change < -LOSS - 1e-9


@dataclass(frozen=True)
class OutcomesLike:
    """The robots whose figures were no worse than those of a patch; all of them where there is none."""

    as_good: bool
    """Whether there is one."""
    robots: int
    of: int
    """How many robots were measured."""
    episodes: int
    """How many each of them ran with the patch."""
    violating: float
    """The largest share of violating choices among the robots."""
    lost: int
    success_change: float
    """Mean over the robots."""
    speedup_share: float | None
    """Median over the robots that solved an episode: the speedup that happened, as a share of the one predicted."""


@cache
def read_outcomes(path: Path = ASSET) -> tuple[int, tuple[Outcome, ...]]:
    """(episodes of every robot, the robots)."""
    document = json.loads(path.read_text())
    return document["episodes"], tuple(Outcome(**robot) for robot in document["robots"])


def predicted_violating(check: PatchCheck) -> float:
    """The figure by which robots are compared: see ``Outcome.predicted_violating``."""
    at_speed = check.accelerated.violating if check.accelerated else 0.0
    return max(check.demonstrated.violating, at_speed)


def outcomes_like(violating: float, episodes: int, outcomes: Sequence[Outcome]) -> OutcomesLike:
    """What happened on the robots of which at most this share of choices was predicted to violate; on all of them where
    there is none."""
    as_good = [outcome for outcome in outcomes if outcome.predicted_violating <= violating]
    alike = as_good or list(outcomes)
    shares = [outcome.speedup / outcome.predicted_speedup for outcome in alike if outcome.speedup is not None]
    return OutcomesLike(
        as_good=bool(as_good),
        robots=len(alike),
        of=len(outcomes),
        episodes=episodes,
        violating=max(outcome.predicted_violating for outcome in alike),
        lost=sum(outcome.lost for outcome in alike),
        success_change=float(np.mean([outcome.success_change for outcome in alike])),
        speedup_share=float(np.median(shares)) if shares else None,
    )


def outcome_lines(known: OutcomesLike) -> list[str]:
    """The same in words."""
    alike = f"{known.robots} had figures no worse than these" if known.as_good else "none had figures as good as these"
    speed = ""
    if known.speedup_share is not None:
        speed = (
            f" The median speedup of those that solved an episode was {known.speedup_share:.0%} of the predicted one."
        )
    return [
        f"These are figures of a model. Of {known.of} simulated robots that nobody tuned for, {alike}. In closed loop, "
        f"{known.episodes} episodes each, {known.lost} of {known.robots} lost more than {LOSS * 100:.0f} points of "
        f"success, {known.success_change * 100:+.1f} points on the mean.{speed} Try it on your robot before you trust "
        "it."
    ]
