"""What a LIBERO expert does to things that it does not carry: drawers and knobs."""

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.libero_hand import (
    CAREFUL,
    CLOSED,
    OPEN,
    REACH,
    TOP_SPEED,
    Goal,
    Hand,
    Motion,
    Pose,
    Target,
    above,
)
from speedup_patch.envs.libero_skills import close, descend, fixed, lift, shifted

FIRM = 0.9
"""Largest command of a push against something that resists, such as a knob."""

KNOB_WIDTH = 0.012
"""Metres by which a push may miss the middle of a knob's pointer: nearer to its axis no push turns it."""

PRESSING = 0.5
"""How hard a hand may be shoved that pulls or pushes something along."""


def grip_handle(hand: Hand, handle: Target, approach: float = 0.08) -> Motion:
    """Comes at a handle along the direction in which the fingers point, and closes them on it."""

    def before() -> Pose:
        goal = handle()
        return Pose(goal.position - approach * goal.rotation[:, 2], goal.rotation)

    yield from hand.move(before, OPEN, within=0.015)
    yield from hand.move(handle, OPEN, within=0.008, speed=CAREFUL, freedom=0.15, patience=60)
    yield from close(hand, 12)


def slide_drawer(hand: Hand, handle: Target, joint: str, goal: float, outwards: Float[np.ndarray, "3"]) -> Motion:
    """Takes a drawer by its handle and pulls it along ``outwards`` until its joint is at ``goal`` metres or beyond."""
    while hand.joint(joint) > goal:
        yield from grip_handle(hand, handle)
        for _ in range(60):
            if hand.joint(joint) <= goal or np.linalg.norm(handle().position - hand.position) > 0.03:
                break
            wanted = Pose(hand.position + 0.04 * outwards, handle().rotation)
            yield Goal(wanted, CLOSED, 0.7 * TOP_SPEED, 0.2, shove=PRESSING)
        yield from hand.wait(OPEN, 8)
        here = Pose(hand.position, hand.rotation)
        yield from hand.move(fixed(here, 0.08 * outwards + above(0.05)), OPEN, within=0.02, freedom=0.4)


def push_closed(hand: Hand, front: Target, joint: str, goal: float, inwards: Float[np.ndarray, "3"]) -> Motion:
    """Shuts a drawer or door with closed fingers: from before its front, along ``inwards``, until its joint is at
    ``goal`` or beyond."""
    while hand.joint(joint) < goal:
        yield from hand.move(shifted(front, above(0.12) - 0.09 * inwards), CLOSED, within=0.02, freedom=0.6)
        yield from hand.move(shifted(front, -0.06 * inwards), CLOSED, within=0.02, freedom=0.6)
        for _ in range(80):
            if hand.joint(joint) >= goal:
                break
            pose = front()
            wanted = Pose(pose.position + 0.06 * inwards, pose.rotation)
            yield Goal(wanted, CLOSED, 0.7 * TOP_SPEED, 0.2, shove=PRESSING)


def turn_knob(hand: Hand, beside: Target, beyond: Target, joint: str, goal: float) -> Motion:
    """Turns a knob by pushing its pointer with closed fingers, from ``beside`` it towards ``beyond`` it, until its
    joint is at ``goal`` radians; comes again where it is too far off the line to turn it."""
    while hand.joint(joint) < goal:
        yield from hand.move(shifted(beside, above(0.07)), CLOSED, within=0.02)
        yield from descend(hand, beside, CLOSED, within=0.01, caution=8.0)
        for _ in range(60):
            start, end = beside().position, beyond().position
            along = (end - start) / np.linalg.norm(end - start)
            astray = start - hand.position - ((start - hand.position) @ along) * along
            if hand.joint(joint) >= goal or np.linalg.norm(astray) > KNOB_WIDTH:
                break
            wanted = Pose(hand.position + REACH * FIRM * along + astray, beyond().rotation)
            yield Goal(wanted, CLOSED, 1.0, 0.2, shove=PRESSING)
        yield from lift(hand, 0.1)
