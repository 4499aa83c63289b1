"""The person who demonstrates: sees hands, fingers and object, waits for them, and sends what a device would send."""

from collections import deque
from math import pi

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.strangers.bodies import FreeHand, JointArm, follow_hand
from speedup_patch.envs.strangers.env import StrangerEnv, StrangerSnapshot
from speedup_patch.envs.strangers.machine import (
    axis_speeds,
    delta_scales,
    settle_seconds,
    velocity_scale,
    write_finger_command,
    write_rotation,
)
from speedup_patch.envs.strangers.plans import Move, Place, plan_moves
from speedup_patch.envs.strangers.tasks import OPERATOR_SECONDS
from speedup_patch.interfaces import Observation

POSTURE = 0.6
"""1/s at which joints drift to the posture that the operator likes, where the hand does not mind."""
GAIN = 4.0
"""1/s at which a hand closes in on its target."""
PHASE = 0.45
"""The most that the gain times the robot's lag may be, where the operator steers by what is seen."""
CORRECTION = 1.5
"""1/s at which the operator makes up for a hand that comes to rest beside its target."""
NEAR = 0.03
"""How near its target a hand must be for that, in units of the robot's size."""
STILL_SECONDS = 0.1
"""Fingers that have not moved for this long are seen to have stopped."""
REACTION = (0.08, 0.2)
"""Seconds from seeing that fingers have shut or opened to the next move."""
PAUSE = (0.2, 0.8)
"""Seconds that a pause lasts."""
POSTURES, TILTS = 0.15, 0.08
"""Radians (standard deviation) by which the posture of joints that the hand does not need, and the tilt of a free hand,
differ from one demonstration to the next."""
TREMOR_SECONDS = 0.15
"""Over which a tremor forgets itself."""


class Teleoperator:
    """Demonstrates one episode in closed loop; implements ``act`` of an ``Expert``."""

    def __init__(self, env: StrangerEnv, rng: np.random.Generator) -> None:
        now = env.save()
        self.env, self.rng = env, rng
        self.stranger, self.seconds = env.stranger, 1.0 / env.robot.control_hz
        self.moves = deque(plan_moves(self.stranger, now.layout, rng))
        self.pace = float(rng.uniform(0.85, 1.15))
        count = len(env.arms)
        self._sent = [np.array(now.q[part]) for part in env.parts]
        """What the axes were sent last, where commands are targets."""
        self._velocity = np.zeros((count, 3))
        self._tremor = np.zeros((count, 3))
        self._correction = np.zeros((count, 3))
        self._stays = [np.array(place) for place in now.places[-1]]
        """Where each hand was to go last."""
        self._habits = [self._draw_habit(body) for body in env.arms]
        self._openings = [1.0] * count
        self._seen: deque[tuple[float, ...]] = deque(maxlen=max(2, round(STILL_SECONDS / self.seconds) + 1))
        self._pause = 0.0
        self._since = 0.0
        """Seconds for which what is waited for has been seen."""
        self._reaction = float(rng.uniform(*REACTION))

    def act(self, observation: Observation) -> Float[np.ndarray, " A"]:
        """The action for this moment; ``observation`` is what ``env`` shows now."""
        now = self.env.save()
        self._seen.append(tuple(hand.opening for hand in now.hands))
        if len(self.moves) > 1 and self._done(now, self.moves[0]):
            self._next_move()
        move = self.moves[0]
        self._pause = max(0.0, self._pause - self.seconds)
        commands = [
            np.append(self._command_axes(now, move, arm), self._command_fingers(move, arm))
            for arm in range(len(self.env.arms))
        ]
        return np.concatenate(commands)

    def _draw_habit(self, body: JointArm | FreeHand) -> Float[np.ndarray, " _"]:
        """The posture that is liked in this demonstration: of all joints, or the tilt of a free hand; radians."""
        if isinstance(body, FreeHand):
            return TILTS * self.rng.normal(size=3)
        return body.home + (POSTURES * self.rng.normal(size=body.axes) if body.axes > 3 else 0.0)

    def _next_move(self) -> None:
        self.moves.popleft()
        self._since, self._correction[:] = 0.0, 0.0
        self._reaction = float(self.rng.uniform(*REACTION))
        if not self.moves[0].passing and self.rng.random() < self.stranger.operator.pauses:
            self._pause = float(self.rng.uniform(*PAUSE))

    def _done(self, now: StrangerSnapshot, move: Move) -> bool:
        if move.shuts is not None or move.opens is not None:
            self._since = self._since + self.seconds if self._fingers_done(now, move) else 0.0
            firm = self.stranger.fingers.grip_seconds if move.shuts is not None else 0.0
            return self._since > self._reaction + firm
        size = self.stranger.size
        for arm, target in enumerate(self._targets(now, move)):
            if target is None:
                continue
            hand, before = (np.array(now.places[index][arm]) for index in (-1, -2))
            fast = np.linalg.norm(hand - before) > 0.2 * self.stranger.speed * self.env.law.tick
            if np.linalg.norm(target - hand) > move.within * size or (fast and not move.passing):
                return False
        return True

    def _fingers_done(self, now: StrangerSnapshot, move: Move) -> bool:
        """Whether the fingers are seen to have stopped on the object, or to have left it."""
        if move.opens is not None:
            width = now.layout.width + self.stranger.fingers.release
            return now.hands[move.opens].opening >= min(width + 0.05, 0.98)
        assert move.shuts is not None
        openings = [seen[move.shuts] for seen in self._seen]
        return openings[-1] < 0.9 and max(openings) - min(openings) < 1e-6

    def _targets(self, now: StrangerSnapshot, move: Move) -> list[Place | None]:
        """Where the hands are to go; for an object that is carried, so that the object gets there."""
        if not move.carries:
            return list(move.targets)
        thing = np.array(now.thing.place)
        hands = [np.array(place) for place in now.places[-1]]
        return [
            None if target is None else target + hand - thing for target, hand in zip(move.targets, hands, strict=True)
        ]

    def _command_fingers(self, move: Move, arm: int) -> float:
        fingers, wanted = self.stranger.fingers, move.openings[arm]
        most = self.seconds * self.pace / fingers.ramp_seconds if fingers.ramp_seconds else 1.0
        self._openings[arm] += min(max(wanted - self._openings[arm], -most), most)
        return write_finger_command(fingers.units, self._openings[arm])

    def _command_axes(self, now: StrangerSnapshot, move: Move, arm: int) -> Float[np.ndarray, " _"]:
        """What this arm's axes are sent, in the robot's units."""
        velocity = self._steer(now, move, arm)
        part, body, stranger = self.env.parts[arm], self.env.arms[arm], self.stranger
        if isinstance(body, FreeHand):
            return self._command_free(now, move, arm, velocity)
        if stranger.control == "velocity":
            speeds = self._joint_step(body, now.q[part], velocity, arm) / self.seconds
            return np.clip(speeds / (velocity_scale(stranger) * stranger.control_hz), -1.0, 1.0)
        self._sent[arm] = self._sent[arm] + self._joint_step(body, self._sent[arm], velocity, arm)
        return np.degrees(self._sent[arm]) if stranger.control == "joints_deg" else self._sent[arm]

    def _joint_step(
        self, body: JointArm, q: Float[np.ndarray, " J"], velocity: Place, arm: int
    ) -> Float[np.ndarray, " J"]:
        """How far the joints go in one control step, so that the hand moves and the posture stays."""
        _, jacobian = body.jacobian(q)
        drift = self.seconds * POSTURE * (self._habits[arm] - q)
        return drift + follow_hand(jacobian, self.seconds * velocity - jacobian @ drift, self.stranger.size)

    def _command_free(self, now: StrangerSnapshot, move: Move, arm: int, velocity: Place) -> Float[np.ndarray, " _"]:
        stranger, part = self.stranger, self.env.parts[arm]
        wanted = self._habits[arm] + np.array([0.0, 0.0, now.layout.yaw if move.turned else 0.0])
        if stranger.control == "pose":
            sent = self._sent[arm]
            turn = sent[3:] + self.seconds * self._turn(wanted, sent[3:])
            self._sent[arm] = np.concatenate([sent[:3] + self.seconds * velocity, turn])
            return np.concatenate([self._sent[arm][:3], write_rotation(turn, stranger.rotation)])
        turns = slice(part.start + 3, part.stop)
        spin = self._turn(wanted, now.q[turns] + self._lag() * now.v[turns])
        ahead = self.seconds if stranger.integrates else settle_seconds(stranger)
        far, angle = delta_scales(stranger)
        return np.clip(np.concatenate([ahead * velocity / far, ahead * spin / angle]), -1.0, 1.0)

    def _turn(self, wanted: Place, turn: Place) -> Place:
        """How fast the operator turns a free hand, in rad/s."""
        most = axis_speeds(self.stranger)[1] * self.pace
        return np.clip(self._gain() * (wanted - turn), -most, most)

    def _steer(self, now: StrangerSnapshot, move: Move, arm: int) -> Place:
        """The velocity of the hand that the operator is for, in m/s."""
        stranger, target = self.stranger, self._targets(now, move)[arm]
        if target is None or self._pause > 0.0:
            target = self._stays[arm]
        most = stranger.speed * self.pace * move.speed
        self._stays[arm] = target
        off = target - np.array(now.places[-1][arm])
        if not move.passing and np.linalg.norm(off) < NEAR * stranger.size:
            self._correction[arm] += CORRECTION * self.seconds * off
        gap = target - self._watched(now, arm) + self._correction[arm]
        length = float(np.linalg.norm(gap))
        speed = most if move.passing and length > NEAR * stranger.size else min(most, self._gain() * length)
        wanted = gap * (speed / max(length, 1e-9))
        change = wanted - self._velocity[arm]
        limit = stranger.speed * self.seconds / OPERATOR_SECONDS
        self._velocity[arm] += change * min(1.0, limit / max(float(np.linalg.norm(change)), 1e-9))
        return self._velocity[arm] + self._shake(arm)

    def _watched(self, now: StrangerSnapshot, arm: int) -> Place:
        """What is steered: where the hand was sent; or, where commands are motions, where it will be after its lag."""
        body = self.env.arms[arm]
        if self.stranger.control in ("joints_rad", "joints_deg", "pose"):
            return np.array(body.locate(self._sent[arm]))
        last, before = (np.array(now.places[index][arm]) for index in (-1, -2))
        return last + self._lag() * (last - before) / self.env.law.tick

    def _lag(self) -> float:
        """Seconds by which the robot is behind."""
        servo = self.stranger.servo
        answer = 1.0 / (2 * pi * servo.bandwidth_hz)
        return servo.dead_seconds + answer * (1.0 if self.stranger.control == "velocity" else 2.0)

    def _gain(self) -> float:
        if self.stranger.control in ("joints_rad", "joints_deg", "pose"):
            return GAIN
        return min(GAIN, PHASE / (self._lag() + 0.5 * self.seconds))

    def _shake(self, arm: int) -> Place:
        keep = np.exp(-self.seconds / TREMOR_SECONDS)
        noise = self.rng.normal(size=3) * (np.array([1.0, 1.0, 0.0]) if self.stranger.planar else 1.0)
        self._tremor[arm] = keep * self._tremor[arm] + np.sqrt(1 - keep**2) * noise
        return self.stranger.operator.tremor * self.stranger.speed * self._tremor[arm]
