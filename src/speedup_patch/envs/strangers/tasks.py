"""What strangers are to do, and what happens to the object on the way.

Objects are picked up, carried and put down (place), put into a slot (slot), carried through a gate (gate), handed from
one arm to the other (handover), or pushed along the table (push). Lengths below are in units of the robot's size.
"""

from dataclasses import dataclass, replace
from math import hypot

import numpy as np

from speedup_patch.envs.strangers.physics import Hand
from speedup_patch.envs.strangers.spec import Stranger, Task

Point = tuple[float, float, float]

INSTRUCTIONS: dict[Task, str] = {
    "place": "Put the object at the goal.",
    "slot": "Put the object into the slot.",
    "gate": "Carry the object through the gate to the goal.",
    "push": "Push the object to the goal.",
    "handover": "Hand the object to the left arm and put it at the goal.",
}
GRASP = 0.022
"""How far from where an object is grasped a hand may be to grasp it."""
GRASP_TURN = 0.3
"""Radians by which a free hand may be turned against the object."""
GOAL = 0.04
"""How far from its goal an object may lie."""
SLOT, SLOT_DEPTH, SLOT_RIM = 0.016, 0.05, 0.05
"""By how much an object may miss a slot sideways, how deep the slot is, and how wide its rim."""
GATE = 0.025
"""By how much an object may miss the middle of a gate."""
DROP = 0.05
"""The height from which an object may be dropped."""
AWAY = 0.05
"""How far a hand must be from the object in the end."""
TEAR = 0.03
"""By how much two hands that hold one object may pull it apart."""
BAR = 0.03
"""Where each of two hands holds the object, from its middle."""
REACH, PLATE = 0.035, 0.035
"""How far in front of a pushing hand the object is, and how far to its side it may be."""
PUSH_LENGTH, PUSH_WIDTH = 0.022, 0.03
"""How far from its goal, along and across, a pushed object may come to rest."""
SHUT = 0.3
"""Fingers that push must be closed to less than this opening."""
SLIDING = 0.8
"""m/s^2 at which a sliding object slows down."""
OPERATOR_SECONDS = 0.3
"""How long the operator's hand takes to its full speed."""


@dataclass(frozen=True)
class Layout:
    """Where things are in one episode, in metres."""

    object: Point
    yaw: float
    goal: Point
    gate: float
    """Where along x the middle of the gate is; the gate stands across y = 0."""
    width: float
    """The opening of fingers that hold the object."""


@dataclass(frozen=True)
class Thing:
    """The object at one moment."""

    place: Point
    yaw: float
    held: tuple[Point | None, ...]
    """Per arm, where the object is from the hand that holds it."""
    yaw_held: float = 0.0
    speed: tuple[float, float] = (0.0, 0.0)
    """Metres per second of an object that slides."""
    lost: str | None = None
    """What went wrong for good."""


def lay_out(stranger: Stranger, rng: np.random.Generator) -> Layout:
    """Places for object, goal and gate."""
    side = 1.0 if stranger.number % 2 else -1.0

    def point(x: tuple[float, float], y: tuple[float, float], sign: float) -> Point:
        return float(rng.uniform(*x) * stranger.size), float(sign * rng.uniform(*y) * stranger.size), 0.0

    if stranger.task == "push":
        start = point((0.3, 0.36), (-0.12, 0.12), 1.0)
        ahead = point((0.12, 0.17), (-0.03, 0.03), 1.0)
        goal: Point = (start[0] + ahead[0], start[1] + ahead[1], 0.0)
    else:
        far = (0.44, 0.56) if stranger.planar else (0.3, 0.45)
        across, side = ((0.18, 0.3), 1.0) if stranger.arms == 2 else ((0.08, 0.2), side)
        start, goal = point(far, across, -side), point(far, across, side)
    yaw = float(rng.uniform(-0.5, 0.5)) if stranger.joints == 0 and stranger.task != "push" else 0.0
    gate = float(stranger.size * rng.uniform(0.34, 0.4))
    return Layout(start, yaw, goal, gate, float(rng.uniform(0.3, 0.5)))


def up(stranger: Stranger) -> Point:
    """The direction in which objects are lifted; in a plane, towards the base."""
    return (-1.0, 0.0, 0.0) if stranger.planar else (0.0, 0.0, 1.0)


def grip_point(stranger: Stranger, place: Point, arm: int) -> Point:
    """Where a hand takes an object that is at ``place``."""
    if stranger.arms == 1:
        return place
    return place[0], place[1] + (BAR if arm else -BAR) * stranger.size, place[2]


def gate_middle(stranger: Stranger, layout: Layout) -> Point:
    """Where an object goes through the gate."""
    return layout.gate, 0.0, 0.0 if stranger.planar else 0.08 * stranger.size


def start_thing(stranger: Stranger, layout: Layout) -> Thing:
    """The object as an episode begins."""
    return Thing(layout.object, layout.yaw, (None,) * stranger.arms)


def width_between(stranger: Stranger, layout: Layout, thing: Thing, arm: int, place: Point, yaw: float) -> float | None:
    """The opening at which this hand's fingers touch the object; None where it is not between them."""
    if stranger.task == "push" or thing.lost:
        return None
    if thing.held[arm] is not None:
        return layout.width
    gap = distance(place, grip_point(stranger, thing.place, arm))
    near = gap < GRASP * stranger.size and (stranger.joints > 0 or abs(yaw - thing.yaw) < GRASP_TURN)
    return layout.width if near else None


def advance(
    stranger: Stranger,
    layout: Layout,
    thing: Thing,
    places: tuple[Point, ...],
    before: tuple[Point, ...],
    yaws: tuple[float, ...],
    hands: tuple[Hand, ...],
    slipped: tuple[bool, ...],
    seconds: float,
) -> Thing:
    """The object one tick later, after the hands have moved from ``before`` to ``places``."""
    if thing.lost:
        return thing
    if stranger.task == "push":
        return _push(stranger, thing, places[0], before[0], hands[0], seconds)
    held = tuple(
        None if not hand.holds else old if old is not None else _minus(thing.place, place)
        for hand, old, place in zip(hands, thing.held, places, strict=True)
    )
    holders = [arm for arm, offset in enumerate(held) if offset is not None]
    if not holders:
        return _fall(stranger, layout, replace(thing, held=held)) if any(thing.held) else thing
    if any(slipped[arm] for arm in holders):
        return replace(thing, held=(None,) * len(held), lost="slipped")
    taken = [_plus(places[arm], held[arm]) for arm in holders]
    if len(taken) == 2 and distance(*taken) > TEAR * stranger.size:
        return replace(thing, held=(None,) * len(held), lost="torn")
    first = holders[0]
    yaw_held = thing.yaw_held if thing.held[first] is not None else thing.yaw - yaws[first]
    moved = replace(thing, place=taken[0], yaw=yaws[first] + yaw_held, held=held, yaw_held=yaw_held)
    lost = _knocked(stranger, layout, thing.place, moved.place)
    return replace(moved, held=(None,) * len(held), lost=lost) if lost else moved


def solved(
    stranger: Stranger, layout: Layout, thing: Thing, places: tuple[Point, ...], hands: tuple[Hand, ...]
) -> bool:
    """Whether the object lies where it should, at rest, and every hand has left it."""
    if thing.lost or any(thing.held):
        return False
    size, off = stranger.size, _minus(thing.place, layout.goal)
    for arm, place in enumerate(places):
        if distance(place, grip_point(stranger, thing.place, arm)) < AWAY * size:
            return False
    if stranger.task == "push":
        return thing.speed == (0.0, 0.0) and abs(off[0]) < PUSH_LENGTH * size and abs(off[1]) < PUSH_WIDTH * size
    return distance(thing.place, layout.goal) < GOAL * size


def _knocked(stranger: Stranger, layout: Layout, before: Point, now: Point) -> str | None:
    """What an object in a hand has run against, if anything."""
    size = stranger.size
    if stranger.task == "gate" and before[1] * now[1] < 0:
        share = before[1] / (before[1] - now[1])
        crossing = before[0] + share * (now[0] - before[0])
        return "gate" if abs(crossing - layout.gate) > GATE * size else None
    if stranger.task == "slot":
        height, side = _above(stranger, layout.goal, now)
        earlier, _ = _above(stranger, layout.goal, before)
        if height < SLOT_DEPTH * size <= earlier and SLOT * size < side < SLOT_RIM * size:
            return "jammed"
    return None


def _fall(stranger: Stranger, layout: Layout, thing: Thing) -> Thing:
    """The object after all hands have let go of it."""
    if stranger.planar:
        return thing
    x, y, z = thing.place
    _, side = _above(stranger, layout.goal, thing.place)
    if (
        stranger.task == "slot"
        and z > SLOT_DEPTH * stranger.size
        and SLOT * stranger.size < side < SLOT_RIM * stranger.size
    ):
        return replace(thing, lost="jammed")
    if z > DROP * stranger.size:
        return replace(thing, place=(x, y, 0.0), lost="dropped")
    return replace(thing, place=(x, y, 0.0))


def _push(stranger: Stranger, thing: Thing, place: Point, before: Point, hand: Hand, seconds: float) -> Thing:
    """Closed fingers drive the object before them, and sideways with them; left alone, it slides on."""
    size, (x, y, z) = stranger.size, thing.place
    beside, high = abs(y - place[1]) > PLATE * size, place[2] > 0.06 * size
    slide = max(thing.speed[0] - SLIDING * size * seconds, 0.0)
    x += slide * seconds
    front = place[0] + REACH * size
    touches = before[0] < x and x < front and not beside and not high and hand.opening < SHUT
    if not touches:
        return replace(thing, place=(x, y, z), speed=(slide, 0.0))
    forward = max((place[0] - before[0]) / seconds, 0.0)
    return replace(thing, place=(front, y + place[1] - before[1], z), speed=(forward, 0.0))


def _above(stranger: Stranger, goal: Point, place: Point) -> tuple[float, float]:
    """(how far above the goal, how far to its side)."""
    x, y, z = _minus(place, goal)
    return (-x, abs(y)) if stranger.planar else (z, hypot(x, y))


def _plus(a: Point, b: Point | None) -> Point:
    assert b is not None
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _minus(a: Point, b: Point) -> Point:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def distance(a: Point, b: Point) -> float:
    """Metres between two points."""
    return hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2])
