"""The moments of demonstrations at which decisions are judged, and which of them a robot has got to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.data import Demonstrations, sent_actions
from speedup_patch.errors import InputError
from speedup_patch.maths.poses import pose_distance
from speedup_patch.observations import commands_before, observe_episode
from speedup_patch.robots import Robot


@dataclass(frozen=True)
class Starts:
    """N moments to decide at: the observation o and the chunk A that the demonstrator ran from there."""

    observations: Float[np.ndarray, "N O"]
    chunks: Float[np.ndarray, "N n A"]
    before: Float[np.ndarray, "N M A"]
    """The last commands sent until then (see ``WorldModel.rollout``)."""
    episodes: Int[np.ndarray, " N"]
    moments: Int[np.ndarray, " N"]
    """Where each of them is: the number of its episode, and the control step in it."""


def refuse_short_episodes(demonstrations: Demonstrations, chunk_length: int) -> None:
    """Raises an error that names the first episode in which no whole chunk fits."""
    for index, episode in enumerate(demonstrations):
        if len(episode) < chunk_length:
            raise InputError(
                f"episode {index} has {len(episode)} steps, fewer than a chunk of {chunk_length}; "
                "leave it out or choose a shorter chunk"
            )


def find_starts(
    robot: Robot, demonstrations: Demonstrations, chunk_length: int, stride: int = 1, memory: int = 0
) -> Starts:
    """Every ``stride``-th moment of every episode that still has a whole chunk ahead of it, with the last ``memory``
    commands before."""
    refuse_short_episodes(demonstrations, chunk_length)
    moments = [np.arange(0, len(episode) - chunk_length + 1, stride) for episode in demonstrations]
    each = list(zip(demonstrations, moments, strict=True))
    episodes = np.repeat(np.arange(len(moments)), [len(times) for times in moments])
    return Starts(
        np.concatenate([observe_episode(robot, episode)[times] for episode, times in each]),
        chunks_at(demonstrations, episodes, np.concatenate(moments), chunk_length),
        np.concatenate([commands_before(sent_actions(episode), times, memory) for episode, times in each]),
        episodes,
        np.concatenate(moments),
    )


def chunks_at(
    demonstrations: Demonstrations, episodes: Int[np.ndarray, " K"], moments: Int[np.ndarray, " K"], chunk_length: int
) -> Float[np.ndarray, "K n A"]:
    """What the demonstrators did from these moments on."""
    actions = np.concatenate([episode.actions for episode in demonstrations])
    rows = _first_rows(demonstrations)[episodes] + moments
    return actions[rows[:, None] + np.arange(chunk_length)]


def choose_stride(wanted: float, chunk_length: int) -> int:
    """The smallest divisor of the chunk length that is at least ``wanted``."""
    divisors = [step for step in range(1, chunk_length + 1) if chunk_length % step == 0]
    return next((step for step in divisors if step >= wanted), chunk_length)


def nearest_moments(
    demonstrations: Demonstrations,
    starts: Starts,
    places: Sequence[Float[np.ndarray, "_ arms P"]],
    reached: Float[np.ndarray, "N arms P"],
    done: Float[np.ndarray, " N"],
    stroke: float = 0.0,
) -> tuple[Int[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """(moment, distance): which moment of its episode a robot has got to that ran ``done`` actions of each start's
    chunk, and how far (the paper's d, of the arm that is the furthest) its end-effectors are from the demonstrated ones
    then; infinite where no whole chunk is left.

    ``places`` is where the robot was at every step of every episode, and ``reached`` where it is now: poses, and
    perhaps how far fingers are open, of which a whole opening or closing counts as much as a distance of ``stroke``.
    The nearest moment of the chunk counts; of those that are as near as each other, the one nearest to ``done``.
    """
    n = starts.chunks.shape[1]
    lengths = np.array([len(episode) for episode in demonstrations])
    offsets = np.arange(n + 1)
    moments = starts.moments[:, None] + offsets
    possible = moments <= (lengths[starts.episodes] - n)[:, None]
    rows = _first_rows(demonstrations)[starts.episodes][:, None] + np.where(possible, moments, 0)
    there, here = np.concatenate(places)[rows], reached[:, None]
    distances = pose_distance(there[..., :7], here[..., :7]).max(axis=-1)
    fingers = np.abs(there[..., 7:] - here[..., 7:]).max(axis=(-2, -1), initial=0.0)
    costs = np.where(possible, distances + stroke * fingers + 1e-9 * np.abs(offsets - done[:, None]), np.inf)
    best, each = costs.argmin(axis=1), np.arange(len(costs))
    return moments[each, best], np.where(possible[each, best], distances[each, best], np.inf)


def _first_rows(demonstrations: Demonstrations) -> Int[np.ndarray, " E"]:
    """The row of every episode's first step where all are put one after the other."""
    lengths = np.array([len(episode) for episode in demonstrations])
    return np.cumsum(lengths) - lengths
