"""Whole episodes that are odd: their clock, their length, copies, and long waits at their ends."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from speedup_patch.data import Demonstrations
from speedup_patch.inspect.frames import View
from speedup_patch.inspect.motion import Pause
from speedup_patch.inspect.report import Finding
from speedup_patch.inspect.wording import list_few, name_episodes

OTHER_LENGTH, FEWEST_TO_COMPARE = 3.0, 5
"""Episodes this many times longer or shorter than the median stand out, if there are so many episodes."""
LONG_WAIT_SECONDS, LONG_WAIT_SHARE = 2.0, 0.2
"""A wait at an end is long when it takes so many seconds and such a share of its episode."""


def find_episode_faults(view: View, pauses: list[Pause], chunk_length: int) -> Iterator[Finding]:
    """Timestamps, lengths, copies, and waits at the start and the end."""
    yield from _timing(view)
    yield from _lengths(view, chunk_length)
    yield from _copies(view.demonstrations)
    yield from _waits(view, pauses)


def _timing(view: View) -> Iterator[Finding]:
    frames, period = view.frames, 1.0 / view.control_hz
    steps = np.diff(frames.timestamps)
    if not frames.joined.any():
        return
    usual = float(np.median(steps[frames.joined]))
    if abs(usual - period) > 0.01 * period:
        measured = f"{1 / usual:.2f} Hz" if usual > 0 else "no steady clock"
        yield Finding(
            "timestamps",
            f"timestamps say {measured}, but the data set says {view.control_hz:g} Hz",
            "speeds, pauses and stroke times are computed from the frequency, so one of the two makes them wrong",
            "give the true frequency with --hz" + (f", such as --hz {1 / usual:.4g}" if usual > 0 else ""),
        )
        return
    uneven = np.flatnonzero((np.abs(steps - period) > 0.5 * period) & frames.joined)
    if len(uneven):
        episodes = np.unique(frames.episode[uneven]).tolist()
        yield Finding(
            "timestamps",
            f"{len(uneven)} frames come early or late by more than half a control step in "
            f"{name_episodes(episodes, frames.sampled)}, first {frames.where(int(uneven[0]) + 1)}",
            "rows are taken to be one control step apart, so motions across a gap seem faster than they were",
            "look for dropped frames; leave those episodes out with --episodes",
        )


def _lengths(view: View, chunk_length: int) -> Iterator[Finding]:
    lengths = view.frames.lengths
    if len(lengths) == 1:
        yield Finding(
            "one_episode",
            "there is only one episode",
            "none can be held out to check a patch on, so training refuses it",
            "record more; some tens of episodes are a good start",
        )
    short = np.flatnonzero(lengths <= chunk_length).tolist()
    if short:
        yield Finding(
            "short_episodes",
            f"{name_episodes(short, len(lengths))} are not longer than a chunk of {chunk_length} actions",
            "no whole chunk can be taken from them",
            "give your policy's own chunk length with --chunk, or leave them out with --episodes",
        )
    if len(lengths) < FEWEST_TO_COMPARE:
        return
    usual = float(np.median(lengths))
    odd = np.flatnonzero((lengths * OTHER_LENGTH < usual) | (lengths > OTHER_LENGTH * usual)).tolist()
    if odd:
        listed = list_few([f"{number}: {lengths[number]}" for number in odd])
        yield Finding(
            "odd_lengths",
            f"{len(odd)} of {len(lengths)} episodes are much shorter or longer than the median of {usual:.0f} frames "
            f"({listed})",
            "they are likely to be failed, cut or forgotten recordings",
            "look at them, and leave out what does not show the task with --episodes",
        )


def _copies(demonstrations: Demonstrations) -> Iterator[Finding]:
    seen: dict[bytes, int] = {}
    repeats: list[str] = []
    for number, episode in enumerate(demonstrations):
        digest = blake2b(episode.states.tobytes(), digest_size=16)
        digest.update(episode.actions.tobytes())
        first = seen.setdefault(digest.digest(), number)
        if first != number:
            repeats.append(f"{number} repeats {first}")
    if repeats:
        yield Finding(
            "repeated_episodes",
            f"{len(repeats)} of {len(demonstrations)} episodes repeat another exactly ({list_few(repeats)})",
            "an episode that is trained on and held out makes a patch look better than it is",
            "leave the copies out with --episodes",
        )


def _waits(view: View, pauses: list[Pause]) -> Iterator[Finding]:
    for place, verb in (("start", "start"), ("end", "end")):
        long = [
            pause
            for pause in pauses
            if pause.place == place
            and pause.steps > LONG_WAIT_SECONDS * view.control_hz
            and pause.steps > LONG_WAIT_SHARE * view.frames.lengths[pause.episode]
        ]
        if long:
            longest = max(long, key=lambda pause: pause.steps)
            numbers = [pause.episode for pause in long]
            yield Finding(
                f"waits_at_{place}",
                f"{name_episodes(numbers, view.frames.sampled)} {verb} with a long wait, "
                f"up to {longest.steps / view.control_hz:.1f} s in episode {longest.episode}",
                "a patch learns to run through the wait, which makes its speed look better than it is on the task",
                "cut the waits off when the data is recorded or converted",
            )
