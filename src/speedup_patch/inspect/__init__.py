"""A look at demonstrations before training on them: what is in them, what the robot does, what seems wrong."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.inspect.frames import MOST_FRAMES, Frames, View, measure_dimensions, sample_frames
from speedup_patch.inspect.limits import find_limits
from speedup_patch.inspect.motion import find_moving, find_pauses, profile_arms, summarise_pauses
from speedup_patch.inspect.recognition import judge_robot, rank_robots, recognise, tied_robots
from speedup_patch.inspect.rendering import render_inspection as render_inspection
from speedup_patch.inspect.report import Finding as Finding
from speedup_patch.inspect.report import Inspection as Inspection
from speedup_patch.inspect.report import Likeness, Spread, TaskCount
from speedup_patch.inspect.strokes import measure_grippers
from speedup_patch.inspect.suspicions import find_suspicions
from speedup_patch.robots import Robot

UNKNOWN_ROBOT = "my_robot.toml"
"""What the training command names when the robot is not known: the file the user has to write."""
CLEARLY = 3.0
"""By so many points another robot must be likelier than the given one to be named."""


@dataclass(frozen=True, eq=False)
class Look:
    """A data set under inspection: what is looked at, the robots it looks like, and what is odd about the robot."""

    view: View
    ranking: tuple[Likeness, ...]
    doubts: tuple[Finding, ...]
    robot_given: bool


def inspect_demonstrations(
    demonstrations: Demonstrations,
    robot: Robot | None = None,
    *,
    dataset: str = "DATASET",
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    chunk_length: int = 24,
) -> Inspection:
    """The data set at a glance; without ``robot``, or with one of other sizes, it is recognised from the data."""
    look = look_at(demonstrations, robot, state_names=state_names, action_names=action_names)
    return summarise(look, dataset=dataset, chunk_length=chunk_length)


def look_at(
    demonstrations: Demonstrations,
    robot: Robot | None = None,
    *,
    state_names: Sequence[str] = (),
    action_names: Sequence[str] = (),
    most_frames: int = MOST_FRAMES,
) -> Look:
    """The frames to look at (about ``most_frames`` of a larger data set) and the robot that gives them a meaning."""
    frames = sample_frames(demonstrations, most_frames)
    ranking = rank_robots(demonstrations, frames, state_names, action_names)
    doubts = list(_doubt_size(robot, demonstrations, ranking)) if robot else []
    given = robot is not None and not doubts
    used = robot if given else recognise(ranking)
    poses = np.zeros((len(frames), 0, 7))
    if used:
        doubts += _doubt_choice(used, () if given else tied_robots(ranking))
        doubts += _doubt_likeness(used, demonstrations, frames)
        doubts += _doubt_rate(used, demonstrations)
        used = used.at(demonstrations.control_hz)
        try:
            poses = used.poses(frames.states)
        except InputError as error:
            doubts.append(_no_rotation(used, error))
            used = None
    view = View(
        demonstrations,
        frames,
        used,
        poses,
        _names(used.state_names if used else state_names, "state", demonstrations.state_size),
        _names(used.action_names if used else action_names, "action", demonstrations.action_size),
    )
    return Look(view, ranking, tuple(doubts), given and used is not None)


def summarise(look: Look, *, dataset: str = "DATASET", chunk_length: int = 24) -> Inspection:
    """Everything there is to say about what is looked at."""
    view, ranking = look.view, look.ranking
    demonstrations, frames, robot, hz = view.demonstrations, view.frames, view.robot, view.control_hz
    pauses = find_pauses(frames, find_moving(frames, robot), hz)
    places = summarise_pauses(pauses, frames, hz)
    grippers = measure_grippers(frames, robot, hz) if robot else ()
    limits, no_limits = find_limits(view)
    counts = Counter(episode.task for episode in demonstrations)
    return Inspection(
        dataset=dataset,
        episodes=len(demonstrations),
        frames=demonstrations.frames,
        sampled_episodes=frames.sampled,
        sampled_frames=len(frames),
        control_hz=hz,
        lengths=_spread(frames.lengths.astype(np.float64)),
        tasks=tuple(TaskCount(task, episodes) for task, episodes in counts.most_common()),
        state=measure_dimensions([episode.states for episode in demonstrations], view.state_names),
        action=measure_dimensions([episode.actions for episode in demonstrations], view.action_names),
        robot=robot.name if robot else None,
        robot_given=look.robot_given,
        looks_like=tuple(likeness.robot for likeness in ranking),
        likeness=ranking,
        arms=profile_arms(view),
        grippers=grippers,
        limits=limits,
        no_limits=no_limits,
        pause_share=sum(pauses.share for pauses in places),
        pauses=places,
        findings=(*look.doubts, *find_suspicions(view, pauses, grippers, chunk_length)),
        train_command=train_command([dataset], robot.name if robot else UNKNOWN_ROBOT),
    )


def _doubt_size(robot: Robot, demonstrations: Demonstrations, ranking: Sequence[Likeness]) -> Iterator[Finding]:
    sizes = (demonstrations.state_size, demonstrations.action_size)
    if (robot.state_size, robot.action_size) != sizes:
        describe = "choose columns with --state and --action, or describe the robot in a .toml file (docs/robots.md)"
        yield Finding(
            "wrong_robot",
            f"robot {robot.name!r} has {robot.state_size} state and {robot.action_size} action dimensions, "
            f"but the data has {sizes[0]} and {sizes[1]}",
            "training refuses it",
            f"try --robot {ranking[0].robot}" if ranking else describe,
        )


def _doubt_likeness(robot: Robot, demonstrations: Demonstrations, frames: Frames) -> Iterator[Finding]:
    """Another robot fits much better, by values alone: whoever named the robot or its dimensions may have erred."""
    unnamed = replace(demonstrations, robot_name="")
    own = judge_robot(robot, unnamed, frames, (), ())
    best = next((other for other in rank_robots(unnamed, frames, (), ()) if other.robot != robot.name), None)
    if best is None or best.score < own.score + CLEARLY:
        return
    against = f"; against {robot.name}: {'; '.join(own.doubts)}" if own.doubts else ""
    yield Finding(
        "wrong_robot",
        f"the data looks less like robot {robot.name!r} than like {best.robot!r}: {'; '.join(best.reasons)}{against}",
        "poses, limits and grippers would be read wrongly",
        f"try --robot {best.robot}",
    )


def _doubt_choice(robot: Robot, tied: Sequence[str]) -> Iterator[Finding]:
    if tied:
        yield Finding(
            "which_robot",
            f"nothing in the data tells robot {robot.name} from {', '.join(tied)}; {robot.name} is taken",
            "speeds and deviations are wrong by the difference of their units if it is the other one",
            f"if you know better, say --robot {tied[0]}",
        )


def _doubt_rate(robot: Robot, demonstrations: Demonstrations) -> Iterator[Finding]:
    if abs(demonstrations.control_hz / robot.control_hz - 1) > 0.01:
        yield Finding(
            "control_hz",
            f"the data set runs at {demonstrations.control_hz:g} Hz, but robot {robot.name} at {robot.control_hz:g} Hz",
            "a patch is trained for the frequency of the data, and stroke times are converted to it",
            "nothing, if the robot is run at the frequency of the data; otherwise give the true one with --hz",
        )


def _no_rotation(robot: Robot, error: InputError) -> Finding:
    return Finding(
        "no_rotation",
        f"robot {robot.name}: {error}",
        "the end-effector has no pose there, so training refuses the data",
        "check --robot and --state; leave such episodes out with --skip-bad",
    )


def _names(given: Sequence[str], kind: str, size: int) -> tuple[str, ...]:
    return tuple(given) if len(given) == size else tuple(f"{kind}_{i}" for i in range(size))


def _spread(values: Float[np.ndarray, " n"]) -> Spread:
    return Spread(*np.quantile(values, [0.0, 0.1, 0.5, 0.9, 1.0]).tolist())


def train_command(datasets: Sequence[str], robot: str, options: Sequence[str] = ()) -> str:
    """The command that trains on these data sets, read with these options, as it is typed."""
    words = ["sup", "train", *datasets, *options, "--robot", robot]
    return shlex.join([*words, "--out", f"{Path(datasets[0]).stem or 'my'}.patch"])
