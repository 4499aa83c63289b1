"""Arms of second-order servos with dead time, friction and limits; fingers with a delay and a speed of their own."""

from dataclasses import dataclass, replace
from math import ceil, pi

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.strangers.bodies import FreeHand, find_arms
from speedup_patch.envs.strangers.machine import axis_speeds
from speedup_patch.envs.strangers.spec import Stranger

LONGEST_TICK = 0.02
"""Seconds between two looks at what touches what."""
SUBSTEPS = 4
"""Steps of the servos in one tick."""
RESTING = 1e-3
"""Speed, as a share of an axis's greatest, below which friction holds it."""


@dataclass(frozen=True, eq=False)
class ServoLaw:
    """The constants of every axis of every arm, one after the other."""

    moves: bool
    """Whether commands are speeds; else they are targets."""
    stiffness: float
    """1/s^2; for speeds its root is the rate at which they are taken on."""
    speed: Float[np.ndarray, " D"]
    acceleration: Float[np.ndarray, " D"]
    friction: Float[np.ndarray, " D"]
    """The acceleration that friction takes, while it can."""
    tick: float
    ticks: int
    """Seconds of a tick, and ticks in a control step."""
    delay: int
    """Ticks until a command takes effect."""


def servo_law(stranger: Stranger) -> ServoLaw:
    """The constants of a stranger's arms."""
    servo = stranger.servo
    ticks = ceil(1.0 / stranger.control_hz / LONGEST_TICK - 1e-9)
    tick = 1.0 / stranger.control_hz / ticks
    along, around = axis_speeds(stranger)
    usual = np.concatenate(
        [
            np.array([along] * 3 + [around] * 3) if isinstance(arm, FreeHand) else np.full(arm.axes, 1.5 * along)
            for arm in find_arms(stranger)
        ]
    )
    stiffness = (2 * pi * servo.bandwidth_hz) ** 2
    speed = servo.speed_ratio * usual
    moves = stranger.control == "velocity"
    return ServoLaw(
        moves=moves,
        stiffness=stiffness,
        speed=speed,
        acceleration=speed / servo.acceleration_seconds,
        friction=np.zeros_like(usual) if moves else stiffness * servo.friction * usual,
        tick=tick,
        ticks=ticks,
        delay=round(servo.dead_seconds / tick),
    )


def move_axes(
    law: ServoLaw,
    q: Float[np.ndarray, " D"],
    v: Float[np.ndarray, " D"],
    command: Float[np.ndarray, " D"],
    load: float = 1.0,
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """Places and speeds of the axes one tick later; ``load`` multiplies friction."""
    seconds = law.tick / SUBSTEPS
    damping = 2.0 * law.stiffness**0.5
    friction = load * law.friction
    resting = RESTING * law.speed
    for _ in range(SUBSTEPS):
        wanted = 0.5 * damping * (command - v) if law.moves else law.stiffness * (command - q) - damping * v
        slow = np.abs(v) < resting
        still = slow & (np.abs(wanted) <= friction)
        against = np.sign(np.where(slow, wanted, v))
        pushed = np.minimum(np.maximum(wanted - friction * against, -law.acceleration), law.acceleration)
        v = np.where(still, 0.0, np.minimum(np.maximum(v + seconds * pushed, -law.speed), law.speed))
        q = q + seconds * v
    return q, v


@dataclass(frozen=True)
class Hand:
    """The fingers of one hand at one moment."""

    opening: float = 1.0
    """0 closed .. 1 open."""
    pressed: float = 0.0
    """Seconds for which they have pressed what is between them."""
    holds: bool = False


@dataclass(frozen=True)
class FingerLaw:
    """How fingers answer, per tick."""

    delay: int
    step: float
    """The share of their range that they cover."""
    grip: float
    """Seconds of pressing until they hold."""
    release: float
    """By how much they open until they let go."""
    tick: float


def finger_law(stranger: Stranger, tick: float) -> FingerLaw:
    """The constants of a stranger's fingers."""
    fingers = stranger.fingers
    return FingerLaw(
        delay=round(fingers.delay_seconds / tick),
        step=tick / fingers.stroke_seconds,
        grip=fingers.grip_seconds,
        release=fingers.release,
        tick=tick,
    )


def move_fingers(law: FingerLaw, hand: Hand, command: float, width: float | None) -> Hand:
    """The fingers one tick later; ``width`` is the opening at which they touch the object between them, if one is.

    They stop on the object, hold it once they have pressed it for a while, and let it go once they are further open.
    """
    opening = hand.opening + min(max(command - hand.opening, -law.step), law.step)
    if width is None:
        return Hand(opening)
    if hand.opening >= width - 1e-9:
        opening = max(opening, width)
    if hand.holds:
        return replace(hand, opening=opening, holds=opening <= width + law.release)
    pressed = hand.pressed + law.tick if opening <= width + 1e-9 and command < width else 0.0
    return Hand(opening, pressed, pressed >= law.grip)
