"""How fast the arms move, and where nothing moves."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.inspect.frames import Frames, View
from speedup_patch.inspect.report import ArmSpeed, Pauses, Profile
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.robots import Robot

NEAR_TOP = 0.8
MOVING_TARGET, MOVING_DELTA = 1e-3, 0.02
"""A target moves when it changes by this share of its range in one step; a delta when it exceeds this share of its
largest."""

SHORTEST_PAUSE_SECONDS = 0.2
"""A shorter stillness is no pause."""

Place = Literal["start", "middle", "end"]
PLACES: tuple[Place, ...] = ("start", "middle", "end")


@dataclass(frozen=True)
class Pause:
    """Neighbouring frames of one episode at which nothing moves."""

    episode: int
    first: int
    """Its first frame, counted over all sampled frames."""
    steps: int
    place: Place


def step_speeds(view: View) -> tuple[Float[np.ndarray, "pairs arms"], Float[np.ndarray, "pairs arms"]]:
    """(metres, radians) per second of every arm's end-effector, between frames that follow each other."""
    joined = view.frames.joined
    before, after = view.poses[:-1][joined], view.poses[1:][joined]
    metres = np.linalg.norm(after[..., :3] - before[..., :3], axis=-1) * view.control_hz
    return metres, 2.0 * rotation_distance(before[..., 3:], after[..., 3:]) * view.control_hz


def profile_arms(view: View) -> tuple[ArmSpeed, ...]:
    """The speeds of every arm; none where no two frames follow each other."""
    if view.robot is None or not view.frames.joined.any():
        return ()
    metres, radians = step_speeds(view)
    return tuple(
        ArmSpeed(arm.name, _profile(metres[:, i]), _profile(radians[:, i])) for i, arm in enumerate(view.robot.arms)
    )


def _profile(speeds: Float[np.ndarray, " n"]) -> Profile:
    p10, p50, p90, p95, p99, largest = np.quantile(speeds, [0.1, 0.5, 0.9, 0.95, 0.99, 1.0]).tolist()
    near_top = float((speeds >= NEAR_TOP * p99).mean()) if p99 > 0 else 0.0
    return Profile(float(speeds.mean()), p10, p50, p90, p95, p99, largest, near_top)


def find_moving(frames: Frames, robot: Robot | None) -> Bool[np.ndarray, " N"]:
    """At which frames a command moves; without a robot, at which the state does."""
    if robot is None:
        return _any(_changes(frames.states, frames))
    moving = _changes(frames.actions, frames)
    largest = np.abs(frames.actions).max(axis=0)
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode == "delta":
            moving[:, part] = np.abs(frames.actions[:, part]) > MOVING_DELTA * largest[part]
    return _any(moving)


def _any(table: Bool[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    return np.logical_or.reduce(table, axis=1)


def _changes(table: Float[np.ndarray, "N D"], frames: Frames) -> Bool[np.ndarray, "N D"]:
    changed = np.zeros(table.shape, dtype=bool)
    threshold = MOVING_TARGET * np.ptp(table, axis=0)
    changed[1:] = (np.abs(np.diff(table, axis=0)) > threshold) & frames.joined[:, None]
    # Nothing is known of the frame before a stretch: it counts as the first change or stillness after it.
    starts = [rows.start for _, rows in frames.stretches if rows.stop - rows.start > 1]
    changed[starts] = changed[np.array(starts, dtype=int) + 1]
    return changed


def find_pauses(frames: Frames, moving: Bool[np.ndarray, " N"], control_hz: float) -> list[Pause]:
    """Every run of frames at which nothing moves, in the order of the data."""
    pauses: list[Pause] = []
    shortest = SHORTEST_PAUSE_SECONDS * control_hz
    for episode, rows in frames.stretches:
        still = np.concatenate([[False], ~moving[rows], [False]])
        edges = np.flatnonzero(still[1:] != still[:-1]).reshape(-1, 2)
        for start, end in (edge for edge in edges.tolist() if edge[1] - edge[0] >= shortest):
            first, last = int(frames.row[rows.start + start]), int(frames.row[rows.start + end - 1])
            place = "start" if first == 0 else "end" if last == frames.lengths[episode] - 1 else "middle"
            pauses.append(Pause(episode, rows.start + start, end - start, place))
    return pauses


def summarise_pauses(pauses: list[Pause], frames: Frames, control_hz: float) -> tuple[Pauses, ...]:
    """The pauses at the start, in the middle and at the end of the episodes."""
    summaries: list[Pauses] = []
    for place in PLACES:
        found = [pause for pause in pauses if pause.place == place]
        longest = max(found, key=lambda pause: pause.steps, default=None)
        summaries.append(
            Pauses(
                place=place,
                share=sum(pause.steps for pause in found) / len(frames),
                episodes=len({pause.episode for pause in found}),
                longest_seconds=longest.steps / control_hz if longest else 0.0,
                longest_episode=longest.episode if longest else None,
            )
        )
    return tuple(summaries)
