"""What an inspection finds, as plain values that print and turn into JSON."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """How a quantity is spread."""

    minimum: float
    p10: float
    p50: float
    p90: float
    maximum: float


@dataclass(frozen=True)
class Profile:
    """How fast something moves."""

    mean: float
    p10: float
    p50: float
    p90: float
    p95: float
    p99: float
    """The top speed: what is above may be a fault of the recording."""
    maximum: float
    near_top: float
    """Share of the time at 80% of the top speed or more."""


@dataclass(frozen=True)
class Dimension:
    """One state or action dimension over all frames."""

    name: str
    minimum: float
    maximum: float
    std: float


@dataclass(frozen=True)
class ArmSpeed:
    """How fast one arm's end-effector moves and turns from one frame to the next."""

    arm: str
    metres_per_second: Profile
    radians_per_second: Profile


@dataclass(frozen=True)
class StrokeTime:
    """How long the fingers take from a flip of the command until they are still; None where none could be timed."""

    timed: int
    """How many flips were followed by a motion that could be timed."""
    steps_p50: float | None
    steps_p90: float | None
    seconds_p50: float | None
    seconds_p90: float | None


@dataclass(frozen=True)
class GripperUse:
    """How one arm's gripper is used."""

    arm: str
    flips_per_episode: float
    opening: StrokeTime
    closing: StrokeTime
    robot_stroke_steps: int
    """What the robot's description says, at the frequency of the data."""


@dataclass(frozen=True)
class ArmLimit:
    """The fastest that one arm's end-effector moves and turns in most episodes."""

    arm: str
    metres_per_second: float
    radians_per_second: float
    lag_steps: float
    lag_seconds: float
    """How far it is behind its commands, which is also how long it runs on when they stop."""
    metres_per_command: float | None
    """How far a motion command of 1 moves it; None where commands are targets."""
    axis_lag_steps: tuple[float, ...]
    """How far it is behind motion commands along x, y and z, where nothing holds it; empty where that is not known."""


@dataclass(frozen=True)
class StrokeLimit:
    """How fingers answer a command that moves in one direction; None where no such stroke was seen."""

    strokes: int
    """How many strokes in free motion were seen."""
    delay_steps: float | None
    delay_seconds: float | None
    """From the command until the fingers move."""
    stroke_steps: float | None
    stroke_seconds: float | None
    """How long a stroke over the whole range takes at the fingers' top speed."""
    jumps: bool
    """Whether commands jump from end to end, so that the fingers go as fast as they can."""
    approach_metres_per_second: float | None
    """How fast the arm still is just before such a stroke; None where none was seen."""


@dataclass(frozen=True)
class GripperLimit:
    """How one arm's gripper answers."""

    arm: str
    opening: StrokeLimit
    closing: StrokeLimit
    letting_go_steps: float | None
    """How long fingers that hold something press it on after they are told to open; None where none were seen to."""
    letting_go_seconds: float | None


@dataclass(frozen=True)
class JointLimit:
    """How fast a joint that is sent targets moves, and how far its target runs ahead of it, in the state's own unit;
    and by how many control steps it comes after its target."""

    name: str
    per_second: float
    pull: float
    lag_steps: float


@dataclass(frozen=True)
class Saturation:
    """How often a group of delta actions is at its limit."""

    actions: tuple[str, ...]
    at_limit: float
    """Share of the frames at which one of them commands 99% of its limit or more."""


@dataclass(frozen=True)
class RobotLimits:
    """What the demonstrations show the robot to do, which a patch trained on them measures its chunks against."""

    arms: tuple[ArmLimit, ...]
    joints: tuple[JointLimit, ...]
    grippers: tuple[GripperLimit, ...]
    saturation: tuple[Saturation, ...]


@dataclass(frozen=True)
class Pauses:
    """The frames at one place of the episodes at which nothing moves."""

    place: str
    """start, middle or end."""
    share: float
    """Of all frames."""
    episodes: int
    """In how many episodes there is one."""
    longest_seconds: float
    longest_episode: int | None


@dataclass(frozen=True)
class TaskCount:
    """One task and how many episodes show it."""

    task: str
    episodes: int


@dataclass(frozen=True)
class Likeness:
    """How well the data fits a known robot."""

    robot: str
    score: float
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """Something suspicious: its kind, for programs; what it is, what it means for training and what to do."""

    kind: str
    message: str
    meaning: str
    advice: str


@dataclass(frozen=True)
class Inspection:
    """A data set at a glance."""

    dataset: str
    episodes: int
    frames: int
    sampled_episodes: int
    sampled_frames: int
    """What speeds, grippers, pauses and findings come from; fewer than all in a very large data set."""
    control_hz: float
    lengths: Spread
    """Frames per episode."""
    tasks: tuple[TaskCount, ...]
    state: tuple[Dimension, ...]
    action: tuple[Dimension, ...]
    robot: str | None
    """The robot that gave the dimensions their meaning; without one there are no speeds and grippers."""
    robot_given: bool
    """Whether the user named it; otherwise it was recognised."""
    looks_like: tuple[str, ...]
    """Known robots with these dimensions, the likeliest first."""
    likeness: tuple[Likeness, ...]
    """The same robots, and why."""
    arms: tuple[ArmSpeed, ...]
    grippers: tuple[GripperUse, ...]
    limits: RobotLimits | None
    no_limits: str | None
    """Why there are none."""
    pause_share: float
    """Share of frames that belong to a pause: nothing commanded moves for 0.2 s or longer."""
    pauses: tuple[Pauses, ...]
    findings: tuple[Finding, ...]
    train_command: str
