"""A stranger in closed loop."""

from dataclasses import dataclass
from functools import cached_property
from math import hypot

import numpy as np
from jaxtyping import Float

from speedup_patch.data import MachineState
from speedup_patch.envs.strangers.bodies import find_arms
from speedup_patch.envs.strangers.machine import (
    delta_scales,
    describe,
    read_finger_command,
    read_rotation,
    velocity_scale,
    write_fingers,
    write_rotation,
)
from speedup_patch.envs.strangers.physics import Hand, finger_law, move_axes, move_fingers, servo_law
from speedup_patch.envs.strangers.spec import Stranger, draw_stranger
from speedup_patch.envs.strangers.tasks import (
    INSTRUCTIONS,
    OPERATOR_SECONDS,
    Layout,
    Point,
    Thing,
    advance,
    gate_middle,
    lay_out,
    solved,
    start_thing,
    width_between,
)
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Observation
from speedup_patch.robots import Robot

LEASH_SECONDS = 0.3
"""How far a target that delta commands move on may run ahead, in seconds of the axis's greatest speed."""
SLIP_SECONDS = 0.06
"""Over which the acceleration of a held object counts."""
LOAD = 1.5
"""By how much friction grows while an object is pushed."""

_Command = tuple[int, Float[np.ndarray, " D"], tuple[float, ...]]
"""Number of the control step, what the axes are sent, and the openings that the fingers are sent."""


@dataclass(frozen=True, eq=False)
class StrangerSnapshot:
    """One moment of a StrangerEnv; nothing in it is ever changed."""

    number: int
    layout: Layout
    thing: Thing
    q: Float[np.ndarray, " D"]
    v: Float[np.ndarray, " D"]
    target: Float[np.ndarray, " D"]
    hands: tuple[Hand, ...]
    places: tuple[tuple[Point, ...], ...]
    """Where the hands were at the last ticks, oldest first."""
    commands: tuple[_Command, ...]
    """What takes effect at the next ticks, oldest first; fingers and axes each read it at their own delay."""
    steps: int
    applied: int
    """The control step whose command the axes last took."""
    state: Float[np.ndarray, " S"]
    previous_state: Float[np.ndarray, " S"]


class StrangerEnv:
    """One stranger at its task; implements ``Env``.

    Observations: ``state`` and ``previous_state`` as the robot describes them, and ``environment_state``: where the
    object is (3), its goal (3), the middle of the gate (3) if there is one, and for free hands the object's yaw; all in
    metres and radians.
    """

    def __init__(self, number: int) -> None:
        self.stranger: Stranger = draw_stranger(number)
        self.name = f"strangers/{number}"
        self.robot: Robot = describe(self.stranger)
        self.arms = find_arms(self.stranger)
        self.max_steps = round(self.stranger.seconds * self.stranger.control_hz)
        self.law = servo_law(self.stranger)
        self._fingers = finger_law(self.stranger, self.law.tick)
        ends = np.cumsum([arm.axes for arm in self.arms])
        self.parts = tuple(slice(int(end) - arm.axes, int(end)) for end, arm in zip(ends, self.arms, strict=True))
        self._leash = LEASH_SECONDS * self.law.speed
        self._slip_ticks = max(1, round(SLIP_SECONDS / self.law.tick))
        ratio = self.stranger.fingers.slip_ratio
        self._slips_at = np.inf if ratio is None else ratio * self.stranger.speed / OPERATOR_SECONDS
        self._now = self._start(0)

    def reset(self, seed: int) -> Observation:
        """The start that this seed names: arms at home, fingers open, object and goal somewhere else every time."""
        self._now = self._start(seed)
        return self._observe()

    def _start(self, seed: int) -> StrangerSnapshot:
        layout = lay_out(self.stranger, np.random.default_rng([self.stranger.number, seed]))
        q = np.concatenate([arm.home for arm in self.arms])
        rest = np.zeros_like(q) if self._in_motions else q
        places = tuple(arm.locate(q[part]) for arm, part in zip(self.arms, self.parts, strict=True))
        hands = (Hand(),) * len(self.arms)
        longest = max(self.law.delay, self._fingers.delay)
        state = self._read_state(q, hands)
        return StrangerSnapshot(
            number=self.stranger.number,
            layout=layout,
            thing=start_thing(self.stranger, layout),
            q=q,
            v=np.zeros_like(q),
            target=np.zeros_like(q) if self.law.moves else q,
            hands=hands,
            places=(places,) * (2 * self._slip_ticks + 1),
            commands=((-1, rest, (1.0,) * len(hands)),) * (longest + 1),
            steps=0,
            applied=-1,
            state=state,
            previous_state=state,
        )

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[Observation, bool]:
        """Sends one action; commands beyond the robot's limits are cut to them."""
        now = self._now
        sent, openings = self._read_action(action)
        command = (now.steps, sent, openings)
        q, v, target, hands, thing = now.q, now.v, now.target, now.hands, now.thing
        places, commands, applied = list(now.places), list(now.commands), now.applied
        for _ in range(self.law.ticks):
            commands = [*commands[1:], command]
            number, told, _ = commands[-1 - self.law.delay]
            if number != applied:
                applied, target = number, self._retarget(q, target, told)
            pushing = self.stranger.task == "push" and thing.speed[0] > 0
            q, v = move_axes(self.law, q, v, target, LOAD if pushing else 1.0)
            hands, thing = self._touch(q, hands, thing, places, commands[-1 - self._fingers.delay][2])
        self._now = StrangerSnapshot(
            number=now.number,
            layout=now.layout,
            thing=thing,
            q=q,
            v=v,
            target=target,
            hands=hands,
            places=tuple(places),
            commands=tuple(commands),
            steps=now.steps + 1,
            applied=applied,
            state=self._read_state(q, hands),
            previous_state=now.state,
        )
        return self._observe(), solved(self.stranger, now.layout, thing, places[-1], hands)

    @property
    def task_name(self) -> str:
        """The one task there is."""
        return self.name

    @property
    def instruction(self) -> str:
        """What the robot is asked to do."""
        return INSTRUCTIONS[self.stranger.task]

    def hold_action(self) -> Float[np.ndarray, " A"]:
        """What keeps the robot where ``reset`` has put it."""
        # Where targets are sent, state and action name the same numbers in the same order.
        action = np.zeros(self.robot.action_size) if self._in_motions else self._now.state.copy()
        for gripper in self.robot.grippers:
            action[gripper.action] = gripper.open
        return action

    def machine(self) -> MachineState:
        """The axes of every arm; for free hands those are three slides and three turns."""
        return MachineState(self._now.q)

    def save(self) -> StrangerSnapshot:
        """Everything needed to come back to this moment exactly."""
        return self._now

    def restore(self, snapshot: object) -> Observation:
        """Comes back to a saved moment; what follows repeats bit for bit."""
        if not isinstance(snapshot, StrangerSnapshot) or snapshot.number != self.stranger.number:
            raise InputError(f"{self.name} can only restore what its own save() returned")
        self._now = snapshot
        return self._observe()

    def close(self) -> None:
        """Nothing to release."""

    @cached_property
    def _in_motions(self) -> bool:
        return self.stranger.control in ("delta", "velocity")

    def _retarget(
        self, q: Float[np.ndarray, " D"], target: Float[np.ndarray, " D"], told: Float[np.ndarray, " D"]
    ) -> Float[np.ndarray, " D"]:
        """What the servos are to reach once this command takes effect."""
        if self.stranger.control != "delta":
            return told
        if not self.stranger.integrates:
            return q + told
        return np.minimum(np.maximum(target + told, q - self._leash), q + self._leash)

    def _touch(
        self,
        q: Float[np.ndarray, " D"],
        hands: tuple[Hand, ...],
        thing: Thing,
        places: list[tuple[Point, ...]],
        openings: tuple[float, ...],
    ) -> tuple[tuple[Hand, ...], Thing]:
        """Fingers and object after a tick; ``places`` gets the hands' new places."""
        stranger, layout = self.stranger, self._now.layout
        located = tuple(arm.locate(q[part]) for arm, part in zip(self.arms, self.parts, strict=True))
        yaws = tuple(float(q[part.start + 5]) if stranger.joints == 0 else 0.0 for part in self.parts)
        before = places[-1]
        places[:] = [*places[1:], located]
        hands = tuple(
            move_fingers(
                self._fingers, hand, opening, width_between(stranger, layout, thing, arm, located[arm], yaws[arm])
            )
            for arm, (hand, opening) in enumerate(zip(hands, openings, strict=True))
        )
        slipped = tuple(self._slips(places, arm) for arm in range(len(hands)))
        moved = advance(stranger, layout, thing, located, before, yaws, hands, slipped, self.law.tick)
        if moved.lost and not thing.lost:
            hands = tuple(Hand(hand.opening) for hand in hands)
        return hands, moved

    def _slips(self, places: list[tuple[Point, ...]], arm: int) -> bool:
        if self._slips_at == np.inf:
            return False
        first, middle, last = (places[index][arm] for index in (0, self._slip_ticks, -1))
        bend = hypot(*(a - 2.0 * b + c for a, b, c in zip(first, middle, last, strict=True)))
        return bend > self._slips_at * (self._slip_ticks * self.law.tick) ** 2

    def _read_action(self, action: Float[np.ndarray, " A"]) -> tuple[Float[np.ndarray, " D"], tuple[float, ...]]:
        """(what the axes are sent, the openings that the fingers are sent)."""
        robot = self.robot
        if action.shape != (robot.action_size,):
            raise InputError(f"an action of {robot.name} has {robot.action_size} numbers, not shape {action.shape}")
        if not np.isfinite(action).all():
            worst = int(np.argmin(np.isfinite(action)))
            raise InputError(f"action {robot.action_names[worst]} is {action[worst]}; every command must be finite")
        cut = np.minimum(np.maximum(action.astype(np.float64), robot.action_low), robot.action_high)
        width = robot.action_size // len(self.arms)
        sent, openings = [], []
        for arm in range(len(self.arms)):
            own = cut[arm * width : (arm + 1) * width]
            sent.append(self._axes_sent(own[:-1]))
            openings.append(read_finger_command(self.stranger.fingers.units, float(own[-1])))
        return np.concatenate(sent), tuple(openings)

    def _axes_sent(self, command: Float[np.ndarray, " _"]) -> Float[np.ndarray, " _"]:
        match self.stranger.control:
            case "joints_rad":
                return command
            case "joints_deg":
                return np.radians(command)
            case "velocity":
                return command * (velocity_scale(self.stranger) * self.stranger.control_hz)
            case "delta":
                far, angle = delta_scales(self.stranger)
                return np.concatenate([far * command[:3], angle * command[3:]])
            case "pose":
                try:
                    turn = read_rotation(command[3:], self.stranger.rotation)
                except ValueError as error:
                    raise InputError(
                        f"{self.robot.name}: {command[3:]} is no {self.stranger.rotation}: {error}"
                    ) from error
                return np.concatenate([command[:3], turn])

    def _read_state(self, q: Float[np.ndarray, " D"], hands: tuple[Hand, ...]) -> Float[np.ndarray, " S"]:
        stranger = self.stranger
        state: list[np.ndarray] = []
        for part, hand in zip(self.parts, hands, strict=True):
            own = q[part]
            if stranger.joints == 0:
                own = np.concatenate([own[:3], write_rotation(own[3:], stranger.rotation)])
            elif stranger.control == "joints_deg":
                own = np.degrees(own)
            state += [own, np.array([write_fingers(stranger.fingers.units, hand.opening)])]
        return np.concatenate(state)

    def _observe(self) -> Observation:
        now, stranger = self._now, self.stranger
        scene = [*now.thing.place, *now.layout.goal]
        scene += gate_middle(stranger, now.layout) if stranger.task == "gate" else ()
        scene += [now.thing.yaw] if stranger.joints == 0 else []
        return {
            "state": now.state.copy(),
            "previous_state": now.previous_state.copy(),
            "environment_state": np.array(scene),
        }
