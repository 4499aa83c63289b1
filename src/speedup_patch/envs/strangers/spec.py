"""What makes one stranger differ from the next, drawn from its number.

Every sixteen robots in a row hold the same list of values of each property in an order of their own, so that each half
of the benchmark is a fair mix: robots 0 to 15 are there to develop on, 16 to 31 for the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from speedup_patch.errors import InputError
from speedup_patch.robots import Rotation

STRANGERS = 32
"""How many the benchmark uses; larger numbers draw further ones."""
GROUP = 16
"""Robots among which each property's values are dealt out."""

Control = Literal["joints_rad", "joints_deg", "pose", "delta", "velocity"]
Task = Literal["place", "slot", "gate", "push", "handover"]
FingerUnits = Literal["share", "percent", "inverse", "metres", "sign"]


@dataclass(frozen=True)
class Servo:
    """How each axis of an arm answers: a second-order servo with dead time, friction and limits."""

    bandwidth_hz: float
    """Natural frequency."""
    dead_seconds: float
    friction: float
    """How far from its target an axis may come to rest, in seconds of the operator's speed."""
    speed_ratio: float
    """The greatest speed of an axis in units of what the operator uses."""
    acceleration_seconds: float
    """How long an axis takes to its greatest speed."""


@dataclass(frozen=True)
class Fingers:
    """How a hand answers, and how it holds."""

    delay_seconds: float
    stroke_seconds: float
    """From open to closed at full speed."""
    ramp_seconds: float
    """How long the operator takes for the command of a whole motion; 0: it jumps."""
    grip_seconds: float
    """How long fingers press an object before they hold it."""
    release: float
    """By how much of their range fingers must open before they let go."""
    slip_ratio: float | None
    """The acceleration at which a held object slips out, in units of the operator's own; None where it never does."""
    units: FingerUnits


@dataclass(frozen=True)
class Operator:
    """How the person who demonstrates moves."""

    pace: float
    pauses: float
    """How likely a pause is before a move."""
    detour: float
    """Typical size of a detour, in units of the robot's size."""
    tremor: float
    """Standard deviation of what the hand adds to its speed, as a share of its usual speed."""


@dataclass(frozen=True)
class Stranger:
    """One robot, its task and the person who demonstrates it."""

    number: int
    control: Control
    joints: int
    """Joints of each arm; 0 for a free end-effector."""
    planar: bool
    """Whether it moves in a plane only."""
    arms: int
    task: Task
    control_hz: float
    chunk: int
    """Actions in a chunk of its policy."""
    size: float
    """Lengths of arm, workspace and task, in units of 1: about 0.75 m of reach."""
    rotation: Rotation
    """How a free end-effector's orientation is written."""
    integrates: bool
    """Delta commands move the target on; else they count from where the arm is."""
    command_share: float
    """How much of the command's range the operator uses, where commands are motions."""
    servo: Servo
    fingers: Fingers
    operator: Operator

    @property
    def name(self) -> str:
        return f"stranger_{self.number:02d}"

    @property
    def speed(self) -> float:
        """Metres per second of the operator's hand in free motion."""
        return 0.24 * self.size * self.operator.pace

    @property
    def seconds(self) -> float:
        """The time limit of an episode."""
        return 12.0 + LONGEST_WORK[self.task] / self.operator.pace


LONGEST_WORK: dict[Task, float] = {"place": 18.0, "slot": 20.0, "gate": 20.0, "push": 16.0, "handover": 26.0}
"""Seconds at an operator's pace of 1, about twice what a demonstration takes."""

CONTROLS: dict[Control, int] = {"joints_rad": 4, "joints_deg": 3, "velocity": 3, "pose": 3, "delta": 3}
"""How many robots of a group are commanded how."""
JOINTS = ((2, True), (3, True), *((count, False) for count in (3, 4, 5, 5, 6, 6, 7, 7)))
"""Number of joints, and whether they move in a plane, of the ten robots with joints."""
TWO_ARMED = 3
TASKS: dict[Task, int] = {"place": 4, "slot": 3, "gate": 3, "push": 3}
"""How many of those with one arm do what; two arms hand over."""
RATES_HZ = (10, 10, 12, 15, 15, 20, 20, 20, 25, 25, 30, 30, 30, 40, 50, 50)
SHORTEST_CHUNK, LONGEST_CHUNK = 8, 50
ROTATIONS: dict[str, tuple[Rotation, ...]] = {
    "pose": ("quaternion_xyzw", "euler_xyz", "six_d"),
    "delta": ("axis_angle", "quaternion_xyzw", "euler_xyz"),
}
JUMPING: tuple[FingerUnits, ...] = ("share", "percent", "inverse", "sign", "sign", "metres", "share", "percent")
RAMPED: tuple[FingerUnits, ...] = ("share", "percent", "inverse", "metres", "share", "percent", "share", "metres")
SLIPS = (*(None,) * 8, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0)


def draw_stranger(number: int) -> Stranger:
    """The robot of this number."""
    if number < 0:
        raise InputError(f"strangers are numbered from 0, not {number}")
    return _draw_group(number // GROUP)[number % GROUP]


@cache
def _draw_group(group: int) -> tuple[Stranger, ...]:
    """Sixteen robots that share out one list of values of each property."""
    dealer = _Dealer(np.random.default_rng([23, group]))
    controls, bodies = dealer.deal_counts(CONTROLS), iter(dealer.deal(JOINTS))
    joints = [next(bodies) if control not in ROTATIONS else (0, False) for control in controls]
    two_armed = _choose_two_armed(controls, joints, dealer)
    tasks = iter(dealer.deal_counts(TASKS))
    rotations = {control: iter(dealer.deal(values)) for control, values in ROTATIONS.items()}
    integrates = iter(dealer.deal((True, False, group % 2 == 0)))
    hertz, seconds, sizes = dealer.deal(RATES_HZ), dealer.spread(0.45, 1.5), dealer.spread(0.5, 1.3)
    shares = dealer.spread(0.3, 0.8)
    servos, fingers, operators = _deal_servos(dealer), _deal_fingers(dealer), _deal_operators(dealer)
    return tuple(
        Stranger(
            number=group * GROUP + index,
            control=controls[index],
            joints=joints[index][0],
            planar=joints[index][1],
            arms=2 if index in two_armed else 1,
            task="handover" if index in two_armed else next(tasks),
            control_hz=float(hertz[index]),
            chunk=int(np.clip(round(hertz[index] * seconds[index]), SHORTEST_CHUNK, LONGEST_CHUNK)),
            size=sizes[index],
            rotation=next(rotations[controls[index]]) if controls[index] in rotations else "axis_angle",
            integrates=next(integrates) if controls[index] == "delta" else False,
            command_share=shares[index],
            servo=servos[index],
            fingers=fingers[index],
            operator=operators[index],
        )
        for index in range(GROUP)
    )


@dataclass(frozen=True)
class _Dealer:
    """Shares out values among the robots of a group."""

    rng: np.random.Generator

    def deal(self, values: Any) -> list[Any]:
        """The values in a random order."""
        values = list(values)
        return [values[index] for index in self.rng.permutation(len(values))]

    def deal_counts(self, counts: Mapping[Any, int]) -> list[Any]:
        """Each value so many times, in a random order."""
        return self.deal([value for value, count in counts.items() for _ in range(count)])

    def spread(self, low: float, high: float) -> list[float]:
        """One value for each robot, evenly between two ends: of the logarithm, where the lower one allows it."""
        return self.deal((np.geomspace if low > 0 else np.linspace)(low, high, GROUP).tolist())


def _choose_two_armed(controls: list[Control], joints: list[tuple[int, bool]], dealer: _Dealer) -> list[int]:
    """Robots with two arms: no two are commanded alike, and all can lift."""
    capable = dealer.deal([index for index, (count, planar) in enumerate(joints) if not planar and count != 3])
    different = {controls[index]: index for index in capable}
    return list(different.values())[:TWO_ARMED]


def _deal_servos(dealer: _Dealer) -> list[Servo]:
    bandwidths, dead = dealer.spread(1.5, 6.0), dealer.spread(0.0, 0.12)
    frictions = dealer.deal([0.0] * 4 + np.linspace(0.004, 0.02, GROUP - 4).tolist())
    ratios, accelerations = dealer.spread(1.5, 5.0), dealer.spread(0.06, 0.25)
    return [Servo(*each) for each in zip(bandwidths, dead, frictions, ratios, accelerations, strict=True)]


def _deal_fingers(dealer: _Dealer) -> list[Fingers]:
    delays, strokes, grips = dealer.spread(0.02, 0.25), dealer.spread(0.15, 0.7), dealer.spread(0.03, 0.12)
    releases, slips = dealer.spread(0.06, 0.25), dealer.deal(SLIPS)
    ramps = zip(np.linspace(0.3, 0.9, len(RAMPED)).tolist(), RAMPED, strict=True)
    commands = dealer.deal([*((0.0, units) for units in JUMPING), *ramps])
    return [
        Fingers(delay, stroke, ramp, grip, release, slip, units)
        for delay, stroke, grip, release, slip, (ramp, units) in zip(
            delays, strokes, grips, releases, slips, commands, strict=True
        )
    ]


def _deal_operators(dealer: _Dealer) -> list[Operator]:
    paces, pauses = dealer.spread(0.6, 1.4), dealer.spread(0.0, 0.4)
    detours, tremors = dealer.spread(0.0, 0.06), dealer.spread(0.0, 0.06)
    return [Operator(*each) for each in zip(paces, pauses, detours, tremors, strict=True)]
