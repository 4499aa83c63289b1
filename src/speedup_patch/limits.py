"""What a robot was seen to do: how fast its end-effectors and joints move, how its grippers answer.

Everything is read from demonstrations, in units of one control step. The start of each episode is left out (the jump to
the first command says nothing about the demonstrator), and so are outliers: a limit is what most episodes reach.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.arm_response import Response, joint_lags, read_response, turn_gain
from speedup_patch.data import Demonstrations, Episode, sent_actions
from speedup_patch.errors import InputError
from speedup_patch.maths.poses import pose_distance, rotation_distance
from speedup_patch.robots import Gripper, Robot
from speedup_patch.tuning import Tuning, WatchTuning, tuning_from_json

START_UP_SECONDS = 0.5
REACHED_BY = 0.9
"""A limit is what this share of the episodes stays within."""
SMOOTHED = 3
"""Steps over which speeds are averaged: a single step is noise."""
SMALLEST_STROKE = 0.2
"""Share of its range that a gripper's command must cover to count as a stroke."""
BRISK = 0.9
"""The share of all steps in which an end-effector is no more than brisk."""
JUMP = 0.5
"""Share of its range by which a gripper's command must change in one step to be a jump."""
APPROACH_SECONDS = 0.25
"""How long before a stroke the arm is watched."""


@dataclass(frozen=True)
class ArmLimits:
    """How fast an end-effector moves (metres) and turns (radians) in one control step."""

    speed: float
    turn: float
    """Where turns are told as motions: no less than what the largest of them come to when they are held."""
    lag: float
    """Control steps that the end-effector is behind its commands, be they targets or motions; 0 where neither fits."""
    brisk: float
    """How far (the paper's d) the end-effector gets in one control step when it is brisk: only one step in ten is more
    so."""
    gain: float = 0.0
    """Metres that one unit of a motion command (delta) moves it; 0 where commands are targets."""
    axis_lags: tuple[float, ...] = ()
    axis_gains: tuple[float, ...] = ()
    """The same along x, y and z, where nothing holds it; empty where that is not known."""


@dataclass(frozen=True)
class StrokeLimits:
    """How a gripper answers: steps from a command until the fingers move, and the share of its range it then covers
    in one step."""

    delay: float
    speed: float
    strokes: int
    """How many strokes were seen; without any, delay is 0 and speed a whole range."""
    jumps: bool = False
    """Whether commands jump from end to end: the fingers then go as fast as they can, and nothing makes them faster."""
    approach: float | None = None
    """How fast (metres per control step) the end-effector still is just before such a stroke; None if none was seen."""


@dataclass(frozen=True)
class GripperLimits:
    """Opening and closing apart, and how the fingers' opening is read from the state."""

    scale: "FingerScale"
    opening: StrokeLimits
    closing: StrokeLimits
    letting_go: float = 0.0
    """Within how many steps of a command to open fingers nearly always let go of what they hold: they press it first,
    so that takes longer than ``opening.delay``. 0 where they were never seen to, and in patches from before this was
    read."""


@dataclass(frozen=True)
class Limits:
    """Everything that was read, in the order of the robot's arms, joints and grippers."""

    arms: tuple[ArmLimits, ...]
    joints: tuple[float, ...]
    """How far each state dimension that an action drives moves in one step, in the order of ``Robot.drives``."""
    grippers: tuple[GripperLimits, ...]
    pulls: tuple[float, ...] = ()
    """How far ahead of each of these state dimensions its target runs; empty in a patch without a servo model of them,
    and in patches from before this was read."""
    lags: tuple[float, ...] = ()
    """By how many control steps each of them comes after its target; empty in patches from before this was read."""
    tuning: Tuning = field(default_factory=Tuning)
    """What was chosen by hand, and goes with these limits wherever they are used."""

    def tolerance(self, control_hz: float) -> float:
        """How far (the paper's d) a robot may stray: what a brisk end-effector moves in ``tolerated_seconds``."""
        return self.tuning.deviation.tolerated_seconds * control_hz * max(arm.brisk for arm in self.arms)


def read_limits(robot: Robot, demonstrations: Demonstrations, tuning: Tuning | None = None) -> Limits:
    """The limits of this robot as its demonstrations show them; ``tuning`` is ours where none is given."""
    tuning = tuning or Tuning()
    skip = round(START_UP_SECONDS * demonstrations.control_hz)
    longer = [episode for episode in demonstrations if len(episode) > skip + SMOOTHED + 1]
    if not longer:
        raise InputError(f"no episode is longer than its start of {START_UP_SECONDS} s: limits cannot be read")
    poses = [robot.poses(episode.states[skip:].astype(np.float64)) for episode in longer]
    arms = tuple(
        _arm_limits(
            [pose[:, arm] for pose in poses],
            _held_turn(robot, arm, longer, skip),
            read_response(robot, arm, longer, skip),
        )
        for arm in range(len(robot.arms))
    )
    driven = list(robot.drives.values())
    joints = [np.abs(np.diff(episode.states[skip:, driven], axis=0)) for episode in longer]
    return Limits(
        arms=arms,
        joints=tuple(_usual_top([joint[:, i] for joint in joints]) for i in range(len(driven))),
        grippers=tuple(_gripper_limits(robot, gripper, longer, tuning.watch) for gripper in robot.grippers),
        pulls=_pulls(robot, longer, skip),
        lags=joint_lags(robot, longer, skip),
        tuning=tuning,
    )


def _pulls(robot: Robot, episodes: list[Episode], skip: int) -> tuple[float, ...]:
    """What most episodes stay within of the distance between targets and what they drive."""
    told, driven = list(robot.drives.keys()), list(robot.drives.values())
    gaps = [
        np.abs(sent_actions(episode)[skip:, told].astype(np.float64) - episode.states[skip:, driven])
        for episode in episodes
    ]
    return tuple(_usual_top([gap[:, i] for gap in gaps]) for i in range(len(driven)))


def _arm_limits(paths: list[Float[np.ndarray, "_ 7"]], held_turn: float, response: Response) -> ArmLimits:
    speeds = [np.linalg.norm(np.diff(path[:, :3], axis=0), axis=1) for path in paths]
    turns = [2.0 * rotation_distance(path[1:, 3:], path[:-1, 3:]) for path in paths]
    steps = np.concatenate([pose_distance(path[1:], path[:-1]) for path in paths])
    turn, brisk = max(_usual_top(turns), held_turn), float(np.quantile(steps, BRISK))
    return ArmLimits(speed=_usual_top(speeds), turn=turn, brisk=brisk, **response._asdict())


def _usual_top(speeds: list[Float[np.ndarray, " _"]]) -> float:
    """What the fastest moments of the episodes come to, odd ones left out."""
    window = np.full(SMOOTHED, 1.0 / SMOOTHED)
    tops = [float(np.convolve(speed, window, mode="valid").max()) for speed in speeds]
    return float(np.quantile(tops, REACHED_BY))


def _held_turn(robot: Robot, arm: int, episodes: list[Episode], skip: int) -> float:
    """Radians a step that the largest turn comes to which demonstrators tell in most episodes, once the arm follows it:
    short turns end before that. 0 where turns are not told as motions.

    The start of an episode counts for what is told, since motions do not jump to a first target.
    """
    columns = robot.turns[arm]
    if columns is None:
        return 0.0
    tops = [float(np.linalg.norm(episode.actions[:, columns], axis=1).max()) for episode in episodes]
    return float(np.quantile(tops, REACHED_BY)) * turn_gain(robot, arm, episodes, skip)


@dataclass(frozen=True)
class FingerScale:
    """Turns finger positions into how far a gripper is open: 0 closed, 1 open."""

    signs: tuple[float, ...]
    """Fingers may count in opposite directions; each is taken in the direction in which it follows the command."""
    low: float
    span: float

    def shown(self, fingers: Float[np.ndarray, "*B F"]) -> Float[np.ndarray, "*B"]:
        """Where the fingers are."""
        return (fingers.astype(np.float64) @ np.array(self.signs) - self.low) / self.span


def told_opening(gripper: Gripper, actions: Float[np.ndarray, "T A"]) -> Float[np.ndarray, " T"]:
    """How far a gripper is told to open: 0 closed, 1 open."""
    command = actions[:, gripper.action].astype(np.float64)
    return np.clip((command - gripper.closed) / (gripper.open - gripper.closed), 0.0, 1.0)


def told_strokes(gripper: Gripper, actions: Float[np.ndarray, "T A"], opens: bool) -> Int[np.ndarray, " S"]:
    """The steps at which a gripper that was closed is told to open, or the other way round."""
    there = (told_opening(gripper, actions) >= 0.5) == opens
    return np.flatnonzero(~there[:-1] & there[1:]) + 1


def _finger_scale(robot: Robot, gripper: Gripper, episodes: list[Episode]) -> FingerScale:
    if robot.drives.get(gripper.action) in gripper.state and len(gripper.state) == 1:
        return FingerScale((1.0,), gripper.closed, gripper.open - gripper.closed)  # the command is where the fingers go
    fingers = np.concatenate([episode.states[:, list(gripper.state)] for episode in episodes]).astype(np.float64)
    told = np.concatenate([told_opening(gripper, episode.actions) for episode in episodes])
    together = ((fingers - fingers.mean(axis=0)) * (told - told.mean())[:, None]).sum(axis=0)
    signs = np.where(together < 0, -1.0, 1.0)
    low, high = (float(value) for value in np.quantile(fingers @ signs, [0.005, 0.995]))
    return FingerScale(tuple(float(sign) for sign in signs), low, max(high - low, 1e-9))


@dataclass(frozen=True, eq=False)
class Stroke:
    """One stroke as told and as shown, from the step before the command moves; turned so that both rise."""

    told: Float[np.ndarray, " T"]
    shown: Float[np.ndarray, " T"]

    @property
    def top_speed(self) -> float:
        """The most the fingers cover in one step, as a share of the range."""
        return float(np.diff(self.shown).max(initial=0.0))

    def jumps(self, speed: float) -> bool:
        """Whether the command covers in one step what takes the fingers many."""
        return float(np.diff(self.told).max(initial=0.0)) > max(JUMP, speed)

    def delay(self, speed: float) -> float | None:
        """Steps that the fingers are behind one that follows the command at once, but at ``speed`` at most."""
        ideal = np.empty_like(self.told)
        ideal[0] = self.told[0]
        for step in range(1, len(ideal)):
            ideal[step] = ideal[step - 1] + min(self.told[step] - ideal[step - 1], speed)
        level = (ideal[0] + min(ideal.max(), self.shown.max())) / 2
        crossings = [_crossing(path, level) for path in (ideal, self.shown)]
        if crossings[0] is None or crossings[1] is None:
            return None
        return max(crossings[1] - crossings[0], 0.0)


def _crossing(path: Float[np.ndarray, " T"], level: float) -> float | None:
    """When a path first reaches a level, between the steps."""
    above = np.flatnonzero(path >= level)
    if len(above) == 0 or above[0] == 0:
        return None
    after = int(above[0])
    return after - 1 + (level - path[after - 1]) / (path[after] - path[after - 1])


def _gripper_limits(robot: Robot, gripper: Gripper, episodes: list[Episode], watch: WatchTuning) -> GripperLimits:
    scale = _finger_scale(robot, gripper, episodes)
    strokes: dict[bool, list[Stroke]] = {True: [], False: []}
    for episode in episodes:
        told, shown = told_opening(gripper, episode.actions), scale.shown(episode.states[:, list(gripper.state)])
        strokes[True] += _rising_strokes(told, shown, watch.free)
        strokes[False] += _rising_strokes(1.0 - told, 1.0 - shown, watch.free)
    opening, closing = (
        replace(_stroke_limits(strokes[opens]), approach=_approach_speed(robot, gripper, episodes, opens))
        for opens in (True, False)
    )
    return GripperLimits(scale, opening, closing, _letting_go(gripper, scale, episodes, watch))


def _letting_go(gripper: Gripper, scale: FingerScale, episodes: list[Episode], watch: WatchTuning) -> float:
    """What most openings of fingers that hold something take until these give way."""
    steps: list[int] = []
    for episode in episodes:
        shown = scale.shown(episode.states[:, list(gripper.state)])
        closes = told_strokes(gripper, episode.actions, opens=False)
        for begin in (int(step) for step in told_strokes(gripper, episode.actions, opens=True)):
            if shown[begin] <= watch.free:
                continue
            until = closes[closes > begin].min(initial=len(shown))
            steps += np.flatnonzero(shown[begin:until] > shown[begin] + watch.gave_way)[:1].tolist()
    return float(np.quantile(steps, REACHED_BY)) if steps else 0.0


def _approach_speed(robot: Robot, gripper: Gripper, episodes: list[Episode], opens: bool) -> float | None:
    """What most arms stay within in the moments before they open, or close, their grippers."""
    arm = [arm.gripper for arm in robot.arms].index(gripper)
    before = max(round(APPROACH_SECONDS * robot.control_hz), 1)
    tops: list[float] = []
    for episode in episodes:
        for step in (int(step) for step in told_strokes(gripper, episode.actions, opens) if step > before):
            places = robot.poses(episode.states[step - before : step + 1].astype(np.float64))[:, arm, :3]
            tops.append(float(np.linalg.norm(np.diff(places, axis=0), axis=1).max()))
    return float(np.quantile(tops, REACHED_BY)) if tops else None


def _rising_strokes(told: Float[np.ndarray, " T"], shown: Float[np.ndarray, " T"], free: float) -> list[Stroke]:
    """Every stroke upwards that begins with the fingers no further than ``free`` from the command, until the command
    turns back."""
    rising = np.diff(told, prepend=told[0]) > 1e-3
    strokes: list[Stroke] = []
    for begin in (int(i) for i in np.flatnonzero(rising[1:] & ~rising[:-1]) + 1):
        start = begin - 1
        back = np.flatnonzero(np.diff(told[start:]) < -1e-3)
        until = start + 1 + int(back[0]) if len(back) else len(told)
        whole = told[until - 1] - told[start] > SMALLEST_STROKE
        if (
            whole
            and abs(shown[start] - told[start]) < free
            and shown[start:until].max() - shown[start] > SMALLEST_STROKE / 2
        ):
            strokes.append(Stroke(told[start:until], shown[start:until]))
    return strokes


def _stroke_limits(strokes: list[Stroke]) -> StrokeLimits:
    if not strokes:
        return StrokeLimits(0.0, 1.0, 0)
    speed = float(np.median([stroke.top_speed for stroke in strokes]))
    delays = [delay for stroke in strokes if (delay := stroke.delay(max(speed, 1e-6))) is not None]
    jumps = float(np.mean([stroke.jumps(speed) for stroke in strokes])) > 0.5
    return StrokeLimits(float(np.median(delays)) if delays else 0.0, speed, len(strokes), jumps)


def limits_from_json(document: Any, robot: Robot) -> Limits:
    """Rebuilds limits from what ``dataclasses.asdict`` and JSON make of them; they must fit the robot."""
    try:
        limits = Limits(
            arms=tuple(_arm_from_json(arm) for arm in document["arms"]),
            joints=tuple(float(joint) for joint in document["joints"]),
            grippers=tuple(
                GripperLimits(
                    FingerScale(tuple(part["scale"]["signs"]), part["scale"]["low"], part["scale"]["span"]),
                    StrokeLimits(**part["opening"]),
                    StrokeLimits(**part["closing"]),
                    float(part.get("letting_go", 0.0)),
                )
                for part in document["grippers"]
            ),
            pulls=tuple(float(pull) for pull in document.get("pulls", ())),
            lags=tuple(float(lag) for lag in document.get("lags", ())),
            tuning=tuning_from_json(document.get("tuning", {})),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"the description of a robot's limits is damaged: {error!r}") from error
    found = (len(limits.arms), len(limits.joints), len(limits.grippers))
    if found != (len(robot.arms), len(robot.drives), len(robot.grippers)):
        raise InputError(f"limits of {found} arms, joints and grippers do not fit robot {robot.name!r}")
    for name, values in (("pulls", limits.pulls), ("lags", limits.lags)):
        if len(values) not in (0, len(robot.drives)):
            raise InputError(f"limits with {len(values)} {name} do not fit robot {robot.name!r}")
    return limits


def _arm_from_json(document: Any) -> ArmLimits:
    axes: Any = {name: tuple(document.get(name, ())) for name in ("axis_lags", "axis_gains")}
    return ArmLimits(**(document | axes))
