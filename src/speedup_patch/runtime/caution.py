"""What to watch on a robot that is told motions (deltas), where a mistake is not brought back by the next command.

Three things go wrong there that no chunk shows. An arm that something holds back is pressed harder and harder by merged
motions. An arm that is still fast when its gripper closes or opens does that elsewhere than the policy meant; but
fingers answer late, so one that will be where its gripper is to work by then may have the stroke told on the way. And
an arm that leaves before its fingers have let go takes along what it was to put down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from speedup_patch.limits import Limits, told_strokes
from speedup_patch.maths.momentum import free_motion
from speedup_patch.observations import encoded_poses, split_observation
from speedup_patch.retiming import finger_opening
from speedup_patch.robots import Robot
from speedup_patch.tuning import WatchTuning


@dataclass(frozen=True)
class Caution:
    """Watches over the arms that are told motions."""

    robot: Robot
    limits: Limits
    early_gripper: bool = True
    """A gripper is commanded as soon as its arm will be in place when its fingers answer; else on arrival."""
    remaining_displacement: bool = True
    """What an arm would stop short of that place by is added to its commands; else it is commanded on arrival."""
    unbroken_gripper: bool = True
    """Fingers that are still at a whole opening or closing are not called back."""

    @cached_property
    def watched(self) -> tuple[int, ...]:
        """The arms that motions move as commanded."""
        return tuple(number for number, arm in enumerate(self.limits.arms) if arm.gain > 0)

    @property
    def tuning(self) -> WatchTuning:
        """What was chosen by hand; a patch keeps it with its limits."""
        return self.limits.tuning.watch

    @cached_property
    def _pause(self) -> int:
        """How many commands of a chunk run as they are before the policy is asked again."""
        return max(round(self.tuning.pause_seconds * self.robot.control_hz), 1)

    @cached_property
    def _with_gripper(self) -> list[int]:
        """The arms that have one, in the order of the grippers."""
        return [number for number, arm in enumerate(self.robot.arms) if arm.gripper is not None]

    def stalled(
        self, start: Float[np.ndarray, " X"], foretold: Float[np.ndarray, "l X"], now: Float[np.ndarray, " X"]
    ) -> bool:
        """Whether an arm got nowhere near where its commands should have taken it from ``start``.

        Half of the commands count: callers may ask again before a chunk is over.
        """
        expected = foretold[(len(foretold) + 1) // 2 - 1]
        begin, wanted, reached = (encoded_poses(self.robot, x)[:, :3] for x in (start, expected, now))
        arms, tuning = self.limits.arms, self.tuning
        return any(
            _falls_short(
                wanted[arm] - begin[arm],
                reached[arm] - begin[arm],
                tuning.least_displacement * arms[arm].speed,
                tuning.stalled,
            )
            for arm in self.watched
        )

    def resisted(
        self, o: Float[np.ndarray, " O"], commands: Float[np.ndarray, "l A"], now: Float[np.ndarray, " X"]
    ) -> bool | None:
        """Whether an arm that was sent these commands from ``o`` on got nowhere near as far as it gets in free motion;
        None where they do not take any arm far enough to tell."""
        begin, velocity = (encoded_poses(self.robot, part)[:, :3] for part in split_observation(o))
        reached = encoded_poses(self.robot, now)[:, :3]
        verdicts: list[bool | None] = []
        for number in self.watched:
            arm, columns = self.limits.arms[number], list(self.robot.translations[number] or ())
            if arm.axis_lags:
                lags, gains = np.array(arm.axis_lags), np.array(arm.axis_gains)
                way = free_motion(velocity[number], commands[:, columns], lags, gains)
                verdicts.append(
                    _falls_short(way, reached[number] - begin[number], self._least_free(number), self.tuning.resisted)
                )
        told = [verdict for verdict in verdicts if verdict is not None]
        return any(told) if told else None

    def _least_free(self, number: int) -> float:
        """Metres below which a free displacement of this arm says nothing (see ``WatchTuning.least_command``)."""
        arm, columns = self.limits.arms[number], list(self.robot.translations[number] or ())
        largest = float(np.minimum(self.robot.action_high[columns], -self.robot.action_low[columns]).max())
        return self.tuning.least_command * min(largest * arm.gain, arm.speed)

    def holding(self, x: Float[np.ndarray, " X"]) -> list[float | None]:
        """How far open the fingers of every gripper are, which is on what they hold if they were told to close; None
        where they are closed on nothing to speak of, and where it is not known how late they let go."""
        found: list[float | None] = []
        for arm, gripper, limit in zip(self._with_gripper, self.robot.grippers, self.limits.grippers, strict=True):
            shown = float(finger_opening(self.robot, gripper, limit, x[None])[0])
            found.append(shown if arm in self.watched and limit.letting_go and shown > self.tuning.free else None)
        return found

    def letting_go(
        self,
        x: Float[np.ndarray, " X"],
        chunk: Float[np.ndarray, "n A"],
        last: Float[np.ndarray, " A"],
        held: Sequence[float | None],
        strokes_ago: Sequence[float],
    ) -> Float[np.ndarray, "m A"] | None:
        """The first commands of the chunk as they are, for fingers that were told to open but still hold what they held
        then, so that the arm does not leave with it; None where there are none."""
        grippers = zip(self.robot.grippers, self.limits.grippers, held, strokes_ago, strict=True)
        pressing = [
            gripper.action
            for gripper, limit, opening, ago in grippers
            if opening is not None
            and ago <= limit.letting_go
            and finger_opening(self.robot, gripper, limit, x[None])[0] <= opening + self.tuning.gave_way
        ]
        if not pressing:
            return None
        first = chunk[: self._pause].copy()
        first[:, pressing] = last[pressing]
        return first

    def slow_down(
        self,
        o: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        last: Float[np.ndarray, " A"],
        strokes_ago: Sequence[float],
    ) -> Float[np.ndarray, "m A"] | None:
        """The first commands of the chunk as they are, for an arm that is too fast for a stroke of its gripper within
        the chunk; None where none is.

        ``last`` is the command before, and ``strokes_ago`` how many control steps ago each gripper was told to open or
        close. The gripper is told the stroke at once where the arm gets to its place while the fingers answer, by
        itself or because the rest of the way is told with the stroke; else it is left as it was.
        """
        speeds = np.linalg.norm(encoded_poses(self.robot, split_observation(o)[1])[:, :3], axis=-1)
        commands, pause = np.concatenate([last[None], chunk]), self._pause
        watched = zip(self._with_gripper, self.robot.grippers, self.limits.grippers, strokes_ago, strict=True)
        for number, gripper, limit, ago in watched:
            if number not in self.watched:
                continue
            for opens, stroke in ((False, limit.closing), (True, limit.opening)):
                if stroke.approach is None or speeds[number] <= self.tuning.rush * stroke.approach:
                    continue
                begins = told_strokes(gripper, commands, opens) - 1
                if not len(begins):
                    continue
                begin, first = int(begins[0]), chunk[:pause].copy()
                # Fingers that are still at a stroke are not called back: the policy may just not see them move yet.
                rested = not self.unbroken_gripper or ago >= limit.opening.delay + 1.0 / limit.opening.speed
                # A policy means its fingers to answer where its commands until then lead. A stroke so late in the chunk
                # that they are not in it is waited for: policies put such strokes off.
                answered = begin + round(stroke.delay)
                told = rested and answered <= len(chunk)
                arriving = (
                    self._arriving(number, o, chunk[: max(answered, pause)], pause, stroke.approach) if told else None
                )
                if arriving is not None:
                    arriving[:, gripper.action] = chunk[begin, gripper.action]
                    return arriving
                if begin == 0:
                    first[:, gripper.action] = last[gripper.action]
                return first[: begin or pause]
        return None

    def _arriving(
        self,
        number: int,
        o: Float[np.ndarray, " O"],
        commands: Float[np.ndarray, "r A"],
        pause: int,
        aside: float,
    ) -> Float[np.ndarray, "m A"] | None:
        """The first ``pause`` of these commands, and with them what an arm does not run on by itself of the others, so
        that it gets to where all of them would lead it at their own pace, or past it; None where no commands can do
        that, or where that place lies further beside the arm's way than ``aside``.

        At that pace an arm enters the commands as fast as the first of them makes it, and lags behind the last.
        """
        arm, columns = self.limits.arms[number], list(self.robot.translations[number] or ())
        if not arm.axis_lags or not self.early_gripper:
            return None
        gains, velocity = np.array(arm.axis_gains), encoded_poses(self.robot, split_observation(o)[1])[number, :3]
        told, arriving = commands[:, columns], commands[:pause].copy()
        faster = velocity - gains * (told[0] - told[-1])
        left = gains * told[pause:].sum(axis=0) - np.array(arm.axis_lags) * faster
        forward = velocity / np.linalg.norm(velocity)
        beside = left - float(left @ forward) * forward
        if not self.remaining_displacement:
            return arriving if left @ forward <= 0 and float(np.linalg.norm(beside)) <= aside else None
        missing = max(float(left @ forward), 0.0) * forward + beside
        arriving[:, columns] += missing / gains / len(arriving)
        low, high = self.robot.action_low[columns], self.robot.action_high[columns]
        within = bool(((arriving[:, columns] >= low) & (arriving[:, columns] <= high)).all())
        return arriving if within and float(np.linalg.norm(beside)) <= aside else None


def _falls_short(way: Float[np.ndarray, "3"], done: Float[np.ndarray, "3"], least: float, share: float) -> bool | None:
    """Whether what was done of a way is less than this share of it; None of one that is no longer than ``least``."""
    length = float(np.linalg.norm(way))
    return float(done @ way) < share * length**2 if length > least else None
