"""What to watch on a robot that is told motions (deltas), where a mistake is not brought back by the next command.

Two things go wrong there that no chunk shows: an arm that something holds back is pressed harder and harder by merged
motions, and an arm that is still fast when its gripper closes or opens does that elsewhere than the policy meant. But
fingers answer late: an arm that runs on to where its gripper is to work may have the stroke told on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from speedup_patch.limits import Limits, told_strokes
from speedup_patch.maths.momentum import free_motion
from speedup_patch.observations import encoded_poses, split_observation
from speedup_patch.robots import Robot

STALLED = 0.5
"""An arm is held back when it gets less than this share of the way that it should have got."""
LEAST_WAY = 0.3
"""Ways below this share of one step at the arm's own speed say nothing."""
RESISTED = 0.25
"""Nor does an arm run freely that gets less than this share of the way that its commands make where nothing holds it;
demonstrations of pushing have taught the world model to expect no better."""
LEAST_COMMAND = 1.0
"""Free ways that are shorter than what so large a command makes say nothing."""
RUSH = 1.33
"""An arm is too fast to use its gripper beyond this many times its demonstrated approach."""
PAUSE_SECONDS = 0.1
"""How long a chunk runs as it is before the policy of an arm that was too fast is asked again."""


@dataclass(frozen=True)
class Caution:
    """Watches over the arms that are told motions."""

    robot: Robot
    limits: Limits

    @cached_property
    def watched(self) -> tuple[int, ...]:
        """The arms that motions move as commanded."""
        return tuple(number for number, arm in enumerate(self.limits.arms) if arm.gain > 0)

    def stalled(
        self, start: Float[np.ndarray, " X"], foretold: Float[np.ndarray, "l X"], now: Float[np.ndarray, " X"]
    ) -> bool:
        """Whether an arm got nowhere near where its commands should have taken it from ``start``.

        Half of the commands count: callers may ask again before a chunk is over.
        """
        expected = foretold[(len(foretold) + 1) // 2 - 1]
        begin, wanted, reached = (encoded_poses(self.robot, x)[:, :3] for x in (start, expected, now))
        for arm in self.watched:
            way = wanted[arm] - begin[arm]
            length = float(np.linalg.norm(way))
            done = float((reached[arm] - begin[arm]) @ way) / max(length, 1e-12)
            if length > LEAST_WAY * self.limits.arms[arm].speed and done < STALLED * length:
                return True
        return False

    def resisted(
        self, o: Float[np.ndarray, " O"], commands: Float[np.ndarray, "l A"], now: Float[np.ndarray, " X"]
    ) -> bool:
        """Whether an arm that was sent these commands at ``o`` got nowhere near as far as it gets in free motion."""
        begin, velocity = (encoded_poses(self.robot, part)[:, :3] for part in split_observation(o))
        reached = encoded_poses(self.robot, now)[:, :3]
        for number in self.watched:
            arm, columns = self.limits.arms[number], list(self.robot.translations[number] or ())
            if not arm.axis_lags:
                continue
            lags, gains = np.array(arm.axis_lags), np.array(arm.axis_gains)
            way = free_motion(velocity[number], commands[:, columns], lags, gains)
            length = float(np.linalg.norm(way))
            done = float((reached[number] - begin[number]) @ way) / max(length, 1e-12)
            if length > LEAST_COMMAND * arm.gain and done < RESISTED * length:
                return True
        return False

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
        close. The gripper is told the stroke at once where the arm gets to its place while the fingers answer; else it
        is left as it was.
        """
        speeds = np.linalg.norm(encoded_poses(self.robot, split_observation(o)[1])[:, :3], axis=-1)
        pause = max(round(PAUSE_SECONDS * self.robot.control_hz), 1)
        with_gripper = [number for number, arm in enumerate(self.robot.arms) if arm.gripper is not None]
        commands = np.concatenate([last[None], chunk])
        watched = zip(with_gripper, self.robot.grippers, self.limits.grippers, strokes_ago, strict=True)
        for number, gripper, limit, ago in watched:
            if number not in self.watched:
                continue
            for opens, stroke in ((False, limit.closing), (True, limit.opening)):
                if stroke.approach is None or speeds[number] <= RUSH * stroke.approach:
                    continue
                begins = told_strokes(gripper, commands, opens) - 1
                if not len(begins):
                    continue
                begin, first = int(begins[0]), chunk[:pause].copy()
                # Fingers that are still at a stroke are not called back: the policy may just not see them move yet.
                rested = ago >= limit.opening.delay + 1.0 / limit.opening.speed
                if rested and self._arrives(number, o, chunk[:begin], pause, stroke.approach):
                    first[:, gripper.action] = chunk[begin, gripper.action]
                    return first
                if begin == 0:
                    first[:, gripper.action] = last[gripper.action]
                return first[: begin or pause]
        return None

    def _arrives(
        self, number: int, o: Float[np.ndarray, " O"], way: Float[np.ndarray, "b A"], sent: int, aside: float
    ) -> bool:
        """Whether an arm runs on to the end of a way of commands, or past it, when only ``sent`` of them are sent: no
        further beside it than ``aside``."""
        arm, columns = self.limits.arms[number], list(self.robot.translations[number] or ())
        if not arm.axis_lags:
            return False
        velocity = encoded_poses(self.robot, split_observation(o)[1])[number, :3]
        left = np.array(arm.axis_gains) * way[sent:, columns].sum(axis=0) - np.array(arm.axis_lags) * velocity
        forward = velocity / np.linalg.norm(velocity)
        ahead = float(left @ forward)
        return ahead <= 0 and float(np.linalg.norm(left - ahead * forward)) <= aside
