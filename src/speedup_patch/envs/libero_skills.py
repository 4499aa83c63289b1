"""What a LIBERO expert can do with its hand; a task is a few of these, one after the other."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.libero_hand import (
    CAREFUL,
    CLOSED,
    OPEN,
    TOP_SPEED,
    Goal,
    Hand,
    Motion,
    Pose,
    Target,
    above,
    freedom_at,
    shove_at,
    turned,
)

HIGHEST_LEVEL = 0.12
"""Metres above where it hovers that a hand goes at most."""

OPEN_WIDTH = 0.075
"""Metres between fingers that have closed on nothing yet."""

LEAST_YAW = -np.pi / 3
"""Half a turn of the hand makes no difference to its fingers; yaws from here on avoid a choice at right angles."""


@dataclass(frozen=True)
class Grasp:
    """How a kind of thing is taken: where, from its origin, and across which of its own axes the fingers close."""

    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Metres from the thing's origin to the grip: sideways along ``across``, square to it, and up."""
    across: tuple[float, float, float] | None = None
    """The thing's own axis, lying level, along which the fingers close; None for round things."""
    yaw: float = 0.0
    """A turn about the vertical (radians) in which round things are taken."""
    hover: float = 0.09
    """Metres above the grip from which the hand comes down."""
    closing_steps: int = 10
    caution: float = 3.0
    """Metres by which the hand, coming down, stays higher for every metre that it is off to the side."""

    def pose(self, thing: Pose) -> Pose:
        """Where the hand grips the thing as it stands now."""
        yaw = self.yaw
        if self.across is not None:
            level = thing.rotation @ np.array(self.across)
            # The fingers' axis is minus y when the hand is not turned; half a turn makes no difference.
            yaw = float(np.arctan2(-level[0], level[1]))
            yaw = (yaw - LEAST_YAW) % np.pi + LEAST_YAW
        sideways, along, up = self.offset
        direction = np.array([-np.sin(yaw), np.cos(yaw), 0.0])
        square = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        return Pose(thing.position + sideways * direction + along * square + above(up), turned(yaw))


def shifted(target: Target, offset: Float[np.ndarray, "3"]) -> Target:
    """The same target, ``offset`` metres further in the world's directions."""

    def moved() -> Pose:
        pose = target()
        return Pose(pose.position + offset, pose.rotation)

    return moved


def fixed(pose: Pose, offset: Float[np.ndarray, "3"]) -> Target:
    """A target that stays ``offset`` metres from a pose."""
    return shifted(lambda: pose, offset)


def reach(hand: Hand, target: Target, hover: float, level: bool = False) -> Motion:
    """Goes above the target with open fingers; ``level`` says to stay as high as the hand is now until it is near, but
    not so high that the arm cannot get there."""
    height = float(hand.position[2]) if level else -np.inf

    def hovering() -> Pose:
        goal = target()
        position = goal.position + above(hover)
        if np.linalg.norm((position - hand.position)[:2]) > 0.08:
            position[2] = max(position[2], min(height, position[2] + HIGHEST_LEVEL))
        return Pose(position, goal.rotation)

    return hand.move(hovering, OPEN, within=0.02)


def descend(
    hand: Hand,
    target: Target,
    gripper: float = OPEN,
    within: float = 0.007,
    patience: int = 80,
    caution: float = Grasp.caution,
) -> Motion:
    """Comes down on the target, slowly near it; while it is off to the side it stays a little higher, by ``caution``
    metres for every metre. Ends early where something nearly there is in the way."""
    nearest, since = np.inf, 0
    for _ in range(patience):
        goal = target()
        gap = hand.position - goal.position
        distance, aside = float(np.linalg.norm(gap)), float(np.linalg.norm(gap[:2]))
        since = 0 if distance < nearest - 0.001 else since + 1
        nearest = min(nearest, distance)
        if distance < within or (since > 10 and distance < 0.025):
            return
        lift = float(np.clip(caution * (aside - 0.008), 0.0, 0.08))
        speed = CAREFUL if distance < 0.04 else TOP_SPEED
        wanted = Pose(goal.position + above(lift), goal.rotation)
        yield Goal(wanted, gripper, speed, freedom_at(distance), shove_at(distance))


def close(hand: Hand, steps: int) -> Motion:
    """Closes the fingers and gives them time to grip."""
    return hand.wait(CLOSED, steps)


def lift(hand: Hand, height: float, gripper: float = CLOSED) -> Motion:
    """Straight up by ``height`` metres."""
    return hand.move(fixed(Pose(hand.position, hand.rotation), above(height)), gripper, within=0.02, freedom=0.4)


def holds(hand: Hand, name: str, grasp: Grasp) -> bool:
    """Whether the thing is between the fingers."""
    apart = float(np.linalg.norm(grasp.pose(hand.see(name)).position - hand.position))
    return hand.opening > 0.002 and apart < 0.05


def pick(hand: Hand, name: str, grasp: Grasp, height: float = 0.1, level: bool = False) -> Motion:
    """Reaches, comes down, closes and lifts, again and again until the thing is held."""

    def grip() -> Pose:
        return grasp.pose(hand.see(name))

    while True:
        yield from reach(hand, grip, grasp.hover + float(hand.rng.uniform(-0.015, 0.015)), level)
        yield from descend(hand, grip, caution=grasp.caution)
        yield from close(hand, grasp.closing_steps + int(hand.rng.integers(0, 4)))
        yield from lift(hand, height)
        if holds(hand, name, grasp):
            return


def carry(
    hand: Hand,
    name: str,
    grasp: Grasp,
    goal: Target,
    clearance: float,
    lowest: float,
    rotation: Float[np.ndarray, "3 3"] | None = None,
) -> Generator[Goal, None, bool]:
    """Takes the held thing, no lower than it is now, over the goal, and from ``clearance`` metres above it down to
    ``lowest``, or as low as it gets where something nearly there is in the way; False when it slipped out of the
    hand. The hand turns to ``rotation`` on the way, or stays as it is."""
    rotation = hand.rotation if rotation is None else rotation
    travel = float(hand.see(name).position[2])
    nearest, since = np.inf, 0
    for _ in range(250):
        place, thing = goal().position, hand.see(name).position
        if not holds(hand, name, grasp):
            return False
        aside = float(np.linalg.norm((thing - place)[:2]))
        left = float(thing[2] - place[2]) - lowest
        since = 0 if left < nearest - 0.001 else since + 1
        nearest = min(nearest, left)
        if aside < 0.01 and (left < 0.008 or (since > 20 and left < 0.025)):
            return True
        height, speed = lowest, CAREFUL if left < 0.04 else 0.6 * TOP_SPEED
        if aside > 0.02:
            # Nearer than 8 cm it may come down to the clearance, and lower only once it is over the goal.
            height = clearance if aside < 0.08 else max(clearance, travel - place[2])
            speed = TOP_SPEED
        wanted = Pose(hand.position + place + above(height) - thing, rotation)
        yield Goal(wanted, CLOSED, speed, 0.5 if aside > 0.05 else 0.2, shove_at(aside))
    return True


def release(hand: Hand, retreat: float) -> Motion:
    """Opens the fingers, then goes up out of the way."""
    yield from hand.wait(OPEN, 8)
    yield from lift(hand, retreat, OPEN)


def pick_and_place(
    hand: Hand,
    name: str,
    grasp: Grasp,
    goal: Target,
    clearance: float = 0.06,
    lowest: float = 0.01,
    height: float = 0.1,
    retreat: float = 0.08,
    level: bool = False,
    rotation: Float[np.ndarray, "3 3"] | None = None,
) -> Motion:
    """Picks a thing up, unless the hand has it already, and puts its origin ``lowest`` metres above the goal, the hand
    then turned to ``rotation``; starts over if it slips."""
    while True:
        if not (holds(hand, name, grasp) and hand.opening < OPEN_WIDTH):
            yield from pick(hand, name, grasp, height, level)
        if (yield from carry(hand, name, grasp, goal, clearance, lowest, rotation)):
            return (yield from release(hand, retreat))


def over(hand: Hand, name: str) -> Target:
    """A target at another thing."""
    return lambda: hand.see(name)
