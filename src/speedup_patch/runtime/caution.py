"""What to watch on a robot that is told motions (deltas), where a mistake is not brought back by the next command.

Two things go wrong there that no chunk shows: an arm that something holds back is pressed harder and harder by merged
motions, and an arm that is still fast when its gripper closes or opens does that elsewhere than the policy meant.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from speedup_patch.limits import Limits, told_strokes
from speedup_patch.observations import encoded_poses, split_observation
from speedup_patch.robots import Robot

STALLED = 0.5
"""An arm is held back when it gets less than this share of the way that it should have got."""
LEAST_WAY = 0.3
"""Ways below this share of one step at the arm's own speed say nothing."""
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

    def slow_down(
        self, o: Float[np.ndarray, " O"], chunk: Float[np.ndarray, "n A"], last: Float[np.ndarray, " A"]
    ) -> Float[np.ndarray, "m A"] | None:
        """The first commands of the chunk as they are, grippers still as they were, for an arm that is too fast for a
        stroke of its gripper within the chunk; None where none is. ``last`` is the command before."""
        speeds = np.linalg.norm(encoded_poses(self.robot, split_observation(o)[1])[:, :3], axis=-1)
        pause = max(round(PAUSE_SECONDS * self.robot.control_hz), 1)
        with_gripper = [number for number, arm in enumerate(self.robot.arms) if arm.gripper is not None]
        commands = np.concatenate([last[None], chunk])
        for number, gripper, limit in zip(with_gripper, self.robot.grippers, self.limits.grippers, strict=True):
            if number not in self.watched:
                continue
            for opens, stroke in ((False, limit.closing), (True, limit.opening)):
                if stroke.approach is None or speeds[number] <= RUSH * stroke.approach:
                    continue
                begins = told_strokes(gripper, commands, opens) - 1
                if len(begins):
                    first = chunk[: min(int(begins[0]) or pause, pause)].copy()
                    if begins[0] == 0:
                        first[:, gripper.action] = last[gripper.action]
                    return first
        return None
