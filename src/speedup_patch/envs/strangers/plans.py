"""What the people who demonstrate do, move after move, with detours of their own."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.strangers.spec import Stranger
from speedup_patch.envs.strangers.tasks import BAR, REACH, Layout, gate_middle, up

Place = Float[np.ndarray, " 3"]


@dataclass(frozen=True, eq=False)
class Move:
    """One part of a demonstration: where to go, what the fingers do, and what is waited for."""

    targets: tuple[Place | None, ...]
    """Per arm, metres; None stays."""
    openings: tuple[float, ...]
    """Per arm, what the fingers are sent."""
    carries: bool = False
    """Targets are for the object, not for the hand."""
    speed: float = 1.0
    """Share of the operator's usual speed."""
    within: float = 0.01
    """How near every target must be reached, in units of the robot's size."""
    passing: bool = False
    """Whether hands go on without slowing down."""
    shuts: int | None = None
    opens: int | None = None
    """The arm whose fingers must be seen to have closed, or to have opened."""
    turned: bool = True
    """Whether free hands are turned as the object was at first; else they turn back."""


def plan_moves(stranger: Stranger, layout: Layout, rng: np.random.Generator) -> list[Move]:
    """The moves of one demonstration."""
    match stranger.task:
        case "push":
            return _push(stranger, layout, rng)
        case "handover":
            return _hand_over(stranger, layout, rng)
        case _:
            return _pick_and_place(stranger, layout, rng)


def _detour(stranger: Stranger, rng: np.random.Generator) -> Place:
    spread = np.array([1.0, 1.0, 0.0 if stranger.planar else 0.5])
    return stranger.size * stranger.operator.detour * rng.normal(size=3) * spread


def _pick_and_place(stranger: Stranger, layout: Layout, rng: np.random.Generator) -> list[Move]:
    lift = stranger.size * np.array(up(stranger))
    start, goal = np.array(layout.object), np.array(layout.goal)
    wide, narrow = (1.0,), (0.0,)
    return [
        Move((start + 0.12 * lift + _detour(stranger, rng),), wide, within=0.05, passing=True),
        Move((start + 0.06 * lift,), wide, within=0.015),
        Move((start,), wide, speed=0.5, within=0.007),
        Move((None,), narrow, shuts=0),
        Move((start + 0.09 * lift,), narrow, carries=True, within=0.03, passing=True),
        *_carry(stranger, layout, rng),
        Move((goal + 0.09 * lift,), narrow, carries=True, within=0.008),
        Move((goal + 0.006 * lift,), narrow, carries=True, speed=0.45, within=0.007),
        Move((None,), wide, opens=0),
        Move((goal + 0.12 * lift,), wide, speed=0.8, within=0.02, turned=False),
    ]


def _carry(stranger: Stranger, layout: Layout, rng: np.random.Generator) -> list[Move]:
    """From above the start to above the goal."""
    size, lift = stranger.size, stranger.size * np.array(up(stranger))
    start, goal = np.array(layout.object), np.array(layout.goal)
    if stranger.task != "gate":
        halfway = 0.5 * (start + goal) + 0.1 * lift + _detour(stranger, rng)
        return [Move((halfway,), (0.0,), carries=True, within=0.06, passing=True)]
    middle = np.array(gate_middle(stranger, layout))
    before = np.array([0.0, np.sign(layout.object[1]) * 0.05 * size, 0.0])
    return [
        Move((middle + before,), (0.0,), carries=True, within=0.01),
        Move((middle - before,), (0.0,), carries=True, speed=0.7, within=0.02, passing=True),
    ]


def _push(stranger: Stranger, layout: Layout, rng: np.random.Generator) -> list[Move]:
    size = stranger.size
    height = 0.0 if stranger.planar else 0.02 * size
    back, low = np.array([-size, 0.0, 0.0]), np.array([0.0, 0.0, height])
    high = np.array([0.0, 0.0, 4.0 * height])
    behind, stop = np.array(layout.object) + 0.08 * back + low, np.array(layout.goal) + REACH * back + low
    fist = (0.0,)
    return [
        Move((behind + high + _detour(stranger, rng),), (1.0,), within=0.05, passing=True),
        Move((behind,), fist, speed=0.8),
        Move((None,), fist, shuts=0),
        Move((stop,), fist, speed=0.45, within=0.006),
        Move((stop + 0.12 * back,), fist, speed=0.8, within=0.02),
    ]


def _hand_over(stranger: Stranger, layout: Layout, rng: np.random.Generator) -> list[Move]:
    size, lift = stranger.size, stranger.size * np.array(up(stranger))
    bar, aside = np.array([0.0, BAR * size, 0.0]), np.array([0.0, 0.12 * size, 0.0])
    start, goal = np.array(layout.object), np.array(layout.goal)
    meeting = np.array([0.4, 0.0, 0.16]) * size
    waits = meeting + bar + aside
    both, first, second = (1.0, 1.0), (0.0, 1.0), (1.0, 0.0)
    taken = 0.5 * (start + meeting) + 0.1 * lift + _detour(stranger, rng)
    given = 0.5 * (goal + meeting) + 0.1 * lift + _detour(stranger, rng)
    return [
        Move((start - bar + 0.12 * lift + _detour(stranger, rng), waits), both, within=0.05, passing=True),
        Move((start - bar + 0.06 * lift, waits), both, within=0.015),
        Move((start - bar, None), both, speed=0.5, within=0.007),
        Move((None, None), first, shuts=0),
        Move((start + 0.09 * lift, None), first, carries=True, within=0.03, passing=True),
        Move((taken, None), first, carries=True, within=0.06, passing=True),
        Move((meeting, None), first, carries=True, within=0.008),
        Move((None, meeting + bar), first, speed=0.5, within=0.007),
        Move((None, None), (0.0, 0.0), shuts=1),
        Move((None, None), second, opens=0),
        Move((meeting - bar - aside, None), second, speed=0.8, within=0.03),
        Move((None, given), second, carries=True, within=0.06, passing=True),
        Move((None, goal + 0.09 * lift), second, carries=True, within=0.01),
        Move((None, goal + 0.006 * lift), second, carries=True, speed=0.45, within=0.007),
        Move((None, None), both, opens=1),
        Move((None, goal + bar + 0.12 * lift), both, speed=0.8, within=0.02, turned=False),
    ]
