"""Shortens one robot's chunks, and returns the original whenever shortening would not be safe."""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from speedup_patch.acceleration import accelerate
from speedup_patch.errors import DecisionError, InputError
from speedup_patch.interfaces import find_schedule
from speedup_patch.limits import told_strokes
from speedup_patch.observations import encoded_poses, features, no_commands, observe, split_observation
from speedup_patch.runtime.caution import Caution
from speedup_patch.runtime.decision_log import DecisionLog, LoggedDecision
from speedup_patch.runtime.engine import Engine
from speedup_patch.tuning import WatchTuning
from speedup_patch.warp import Warp, cap_rate, uniform_warp

LEAST_JUMP = 0.05
"""Metres by which a robot may be beside a prediction that hardly moves. Deviations are predicted with a mean error of
0.0086 at the worst (benchmarks/results/counterfactual_aloha_insertion.md)."""
RUN_TIME_ERRORS = (DecisionError, np.linalg.LinAlgError, ArithmeticError, MemoryError)
"""What can happen while a robot runs, whatever the code: the policy's own chunk runs then. All else is a mistake."""
LOGGER = logging.getLogger("speedup_patch")
LOGGER.addHandler(logging.NullHandler())  # silent unless the program sets logging up


@dataclass(frozen=True, eq=False)
class Shortened:
    """What became of one chunk."""

    actions: Float[np.ndarray, "l A"]
    """What to execute: all of it, then ask the policy again."""
    original: int
    """How many actions the chunk had."""
    reason: str | None
    """Why the original chunk came back unchanged, when the guard stepped in."""
    seconds: float
    """How long the decision took."""
    chunk: Float[np.ndarray, "n A"]
    """The policy's own chunk."""
    positions: Float[np.ndarray, " l"]
    """How many of its actions are done after each executed one."""
    error: Exception | None = None
    """What went wrong, where the decision failed."""

    @property
    def done(self) -> float:
        """How many of the chunk's actions are done once all of ``actions`` have run; the rest is left to the policy's
        next chunk."""
        return self.done_after(len(self.actions))

    @property
    def rate(self) -> float:
        """Original actions done per command sent."""
        return self.done / len(self.actions)

    def done_after(self, sent: int) -> float:
        """How many of the chunk's actions are done after the first ``sent`` of ``actions``."""
        return float(self.positions[sent - 1]) if sent else 0.0


class _Choice(NamedTuple):
    actions: Float[np.ndarray, "l A"]
    positions: Float[np.ndarray, " l"]
    reason: str | None
    error: Exception | None = None


def _as_it_is(commands: Float[np.ndarray, "n A"], reason: str | None = None, error: Exception | None = None) -> _Choice:
    return _Choice(commands, np.arange(1.0, len(commands) + 1), reason, error)


class ChunkAccelerator:
    """Shortens the chunks of one robot, or of one client: it remembers the episode so far.

    ``max_rate`` may be set at any time, also from another thread; at 1 every chunk comes back as it is. A decision that
    takes longer than ``deadline`` seconds is not used.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_rate: float | None = None,
        deadline: float | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self.engine = engine
        self.scheduler = engine.new_scheduler()
        self._schedule = find_schedule(self.scheduler)
        if deadline is not None and not deadline > 0:
            raise InputError(f"deadline must be a positive number of seconds, not {deadline}")
        self.max_rate = max_rate
        self.deadline = deadline
        self.log = log
        self.decisions = 0
        self.fallbacks: Counter[str] = Counter()
        self._forget()

    @property
    def max_rate(self) -> float | None:
        """The fastest that is allowed now; None leaves it to the scheduler."""
        return self._max_rate

    @max_rate.setter
    def max_rate(self, rate: float | None) -> None:
        if rate is not None and not 1 <= rate < float("inf"):
            raise InputError(f"max_rate must be a number of at least 1, not {rate}")
        self._max_rate = rate

    def shorten(
        self,
        chunk: Float[np.ndarray, "..."],
        state: Float[np.ndarray, "..."],
        previous_state: Float[np.ndarray, "..."] | None = None,
    ) -> Shortened:
        """The chunk to execute from ``state``; ``previous_state``, one control step earlier, tells the velocity.

        Chunks and states of the wrong shape or with NaN are an error to the caller. Without ``previous_state`` the
        velocity is what the world model expects at the end of the chunk before; after a reset it is zero.
        """
        begin = time.perf_counter()
        wanted = np.asarray(chunk)
        o = self._observe(state, previous_state)
        original = self._checked_chunk(wanted)
        choice = self._choose(o, original)
        seconds = time.perf_counter() - begin
        if self.deadline is not None and seconds > self.deadline:
            choice = _as_it_is(original, "late decision")
        if choice.reason:
            self.fallbacks[choice.reason] += 1
            LOGGER.warning("original chunk returned: %s", choice.reason)
        self.decisions += 1
        before = self._before
        self._remember(o, choice.actions)
        # A copy in the policy's own precision: nobody else's array, and at rate 1 the policy's very bits.
        precision = wanted.dtype if wanted.dtype.kind == "f" else np.dtype(np.float64)
        actions = choice.actions.astype(precision)
        result = Shortened(actions, len(original), choice.reason, seconds, original, choice.positions, choice.error)
        if self.log is not None:
            self.log.add(LoggedDecision(o, original, choice.actions, choice.positions, choice.reason, seconds, before))
        return result

    def prepare(self) -> None:
        """Predicts where the last chunk leads now, rather than when the next decision waits for it."""
        if self._executed is None or self.engine.world_model is None:
            return
        (o, actions, before), self._executed, self._velocity, self._foretold = self._executed, None, None, None
        try:
            path = self.engine.world_model.rollout(o[None], actions[None], before[None])[0].astype(np.float64)
        except RUN_TIME_ERRORS:  # a robot that cannot be predicted is taken to stand still
            LOGGER.exception("the velocity could not be predicted")
            return
        x = split_observation(o)[0]
        if np.isfinite(path).all():
            self._velocity = path[-1] - (path[-2] if len(path) > 1 else x)
            self._foretold = (x, path)

    def jumped(self, state: Float[np.ndarray, "..."]) -> bool:
        """Whether no motion explains how the robot got to ``state`` since the last chunk: an end-effector is further
        from all of the path that was predicted for the chunk than that path is long. Then it was put there, as between
        episodes. False where nothing was predicted."""
        self.prepare()
        now = features(self.engine.robot, self._checked_state(state, "state"))
        if self._foretold is None:
            return False
        start, path = self._foretold
        hands = encoded_poses(self.engine.robot, np.concatenate([start[None], path]))[..., :3]
        away = np.linalg.norm(hands - encoded_poses(self.engine.robot, now)[:, :3], axis=-1).min(axis=0)
        length = np.linalg.norm(np.diff(hands, axis=0), axis=-1).sum(axis=0)
        return bool((away > np.maximum(length, LEAST_JUMP)).any())

    def reset(self) -> None:
        """A new episode begins."""
        self.scheduler.reset()
        self._forget()

    def _forget(self) -> None:
        self._executed: tuple[Float[np.ndarray, " O"], Float[np.ndarray, "l A"], Float[np.ndarray, "M A"]] | None = None
        self._before = no_commands(1, self.engine.memory, self.engine.robot.action_size)[0]
        self._velocity: Float[np.ndarray, " X"] | None = None
        self._foretold: tuple[Float[np.ndarray, " X"], Float[np.ndarray, "l X"]] | None = None
        self._sent: tuple[Float[np.ndarray, " O"], Float[np.ndarray, "l A"]] | None = None
        self._last: Float[np.ndarray, " A"] | None = None
        self._strokes_ago = [np.inf] * len(self.engine.robot.grippers)
        self._held: list[float | None] = [None] * len(self.engine.robot.grippers)
        self._paused = 0
        self._holds = 0

    def _remember(self, o: Float[np.ndarray, " O"], sent: Float[np.ndarray, "l A"]) -> None:
        """What was sent, and where it was sent from."""
        commands, caution = self._with_last(sent), self.engine.caution
        holding = None if caution is None else caution.holding(split_observation(o)[0])
        for number, gripper in enumerate(self.engine.robot.grippers):
            opened, closed = (told_strokes(gripper, commands, opens).max(initial=0) for opens in (True, False))
            stroke = max(opened, closed)
            ago = len(commands) - stroke if stroke else self._strokes_ago[number] + len(sent)
            self._strokes_ago[number] = float(ago)
            if stroke:
                self._held[number] = holding[number] if holding and opened > closed else None
        self._executed = (o, sent, self._before)
        self._sent = None if caution is None else self._watched(o, sent, caution.tuning)
        self._last = sent[-1]
        self._before = np.concatenate([self._before, sent])[len(sent) :]

    def _watched(
        self, o: Float[np.ndarray, " O"], sent: Float[np.ndarray, "l A"], tuning: WatchTuning
    ) -> tuple[Float[np.ndarray, " O"], Float[np.ndarray, "m A"]]:
        """What was sent since an arm was last seen to move freely, and where from; not for longer than can tell."""
        if self._sent is None or len(self._sent[1]) > self._steps(tuning.longest_watch_seconds):
            return o, sent
        return self._sent[0], np.concatenate([self._sent[1], sent])

    def _with_last(self, commands: Float[np.ndarray, "l A"]) -> Float[np.ndarray, "m A"]:
        """The command that was sent last, if any was, and these."""
        return commands if self._last is None else np.concatenate([self._last[None], commands])

    def _choose(self, o: Float[np.ndarray, " O"], chunk: Float[np.ndarray, "n A"]) -> _Choice:
        try:
            return self._decide(o, chunk)
        except RUN_TIME_ERRORS as error:
            LOGGER.exception("the decision failed")
            return _as_it_is(chunk, "decision failed", error)

    def _decide(self, o: Float[np.ndarray, " O"], chunk: Float[np.ndarray, "n A"]) -> _Choice:
        engine = self.engine
        reason = engine.guard.reason(o, chunk) if engine.guard else None
        if reason:
            return _as_it_is(chunk, reason)
        if engine.caution and self._held_back(o, engine.caution):
            return _as_it_is(self._attempt(chunk, engine.caution.tuning), "held back")
        first = self._pause(o, chunk)
        if first is not None:
            return _as_it_is(first)
        warp = self._limited(self._schedule(o, chunk, self._before))
        reason = engine.refuses(o, chunk, self._before) if engine.refuses and len(warp) < len(chunk) else None
        actions = accelerate(engine.robot, chunk, warp, engine.merging).actions
        if engine.keep_up:
            actions = engine.keep_up.pull(warp, actions)
        if reason or len(actions) >= len(chunk):
            return _as_it_is(chunk, reason)
        actions = self._within_limits(actions)
        if actions is None:
            return _as_it_is(chunk, "resampling failed")
        actions = actions[: self._until_release(o, actions)]
        return _Choice(actions, warp.positions[: len(actions)], None)

    def _until_release(self, o: Float[np.ndarray, " O"], actions: Float[np.ndarray, "l A"]) -> int:
        """How many of the commands there are until fingers that hold something are told to open: what comes after may
        take the arm away, and they let go late."""
        caution = self.engine.caution
        if caution is None or self._last is None:
            return len(actions)
        commands, until = self._with_last(actions), len(actions)
        holding = caution.holding(split_observation(o)[0])
        for gripper, held in zip(self.engine.robot.grippers, holding, strict=True):
            if held is not None:
                until = int(told_strokes(gripper, commands, opens=True).min(initial=until))
        return until

    def _held_back(self, o: Float[np.ndarray, " O"], caution: Caution) -> bool:
        """Whether something holds an arm back that is told motions; counts how often it has been since it last moved
        freely."""
        foretold, self._foretold = self._foretold, None
        x, sent = split_observation(o)[0], self._sent
        late = foretold is not None and caution.stalled(*foretold, x)
        resisted = None if sent is None else caution.resisted(*sent, x)
        if resisted is not None:
            self._sent = None
        held = late or bool(resisted)
        if held:
            self._holds += 1
        elif resisted is False:
            self._holds = 0
        return held

    def _attempt(self, chunk: Float[np.ndarray, "n A"], tuning: WatchTuning) -> Float[np.ndarray, "m A"]:
        """What an arm that is held back is given of its chunk: the first commands; or all when those were in vain, for
        what frees it may come late in the chunk, and when a gripper is to open or close in it, which the policy might
        put off if it were asked again before."""
        commands = self._with_last(chunk)
        strokes = [told_strokes(g, commands, opens) for g in self.engine.robot.grippers for opens in (True, False)]
        tried = self._holds % (tuning.short_attempts + 1) == 0
        whole = self.max_rate == 1 or tried or any(len(told) for told in strokes)
        return chunk if whole else chunk[: self._steps(tuning.attempt_seconds)]

    def _steps(self, seconds: float) -> int:
        return max(round(seconds * self.engine.robot.control_hz), 1)

    def _pause(self, o: Float[np.ndarray, " O"], chunk: Float[np.ndarray, "n A"]) -> Float[np.ndarray, "m A"] | None:
        """The first commands alone, where the arm is too fast for what comes after them, or its fingers have yet to let
        go before it may leave."""
        caution, last = self.engine.caution, self._last
        if caution is None or last is None or self.max_rate == 1:
            return None
        letting_go = caution.letting_go(split_observation(o)[0], chunk, last, self._held, self._strokes_ago)
        if letting_go is not None:
            return letting_go
        longest = self._steps(caution.tuning.longest_pause_seconds)
        first = caution.slow_down(o, chunk, last, self._strokes_ago) if self._paused < longest else None
        self._paused = 0 if first is None else self._paused + len(first)
        return first

    def _within_limits(self, actions: Float[np.ndarray, "l A"]) -> Float[np.ndarray, "l A"] | None:
        """The commands cut to the robot's limits; None where they are not finite, or cutting would bend a rotation."""
        robot = self.engine.robot
        cut = np.clip(actions, robot.action_low, robot.action_high)
        rotations = [
            part
            for group, part in zip(robot.actions, robot.action_slices, strict=True)
            if group.rotation and group.mode == "absolute"
        ]
        bent = any(not np.allclose(cut[:, part], actions[:, part], atol=1e-6) for part in rotations)
        return None if bent or not np.isfinite(actions).all() else cut

    def _limited(self, warp: Warp) -> Warp:
        rate = self.max_rate
        if rate is None:
            return warp
        return uniform_warp(warp.original, 1.0) if rate == 1 else cap_rate(warp, rate)

    def _checked_chunk(self, chunk: Float[np.ndarray, "..."]) -> Float[np.ndarray, "n A"]:
        robot, length = self.engine.robot, self.engine.chunk_length
        chunk = np.array(chunk, dtype=np.float64)
        if chunk.ndim != 2 or chunk.shape[1] != robot.action_size or len(chunk) == 0:
            raise InputError(
                f"the policy returned a chunk of shape {chunk.shape}; robot {robot.name!r} takes "
                f"(n, {robot.action_size})"
            )
        if length is not None and len(chunk) != length:
            raise InputError(
                f"the policy returned {len(chunk)} actions, but the patch was trained for chunks of {length}; "
                f"train it with --chunk {len(chunk)}"
            )
        if not np.isfinite(chunk).all():
            row, dimension = np.argwhere(~np.isfinite(chunk))[0]
            name = robot.action_names[dimension]
            raise InputError(f"the policy returned {chunk[row, dimension]} for {name!r} in row {row}; nothing was sent")
        return chunk

    def _observe(
        self, state: Float[np.ndarray, "..."], previous: Float[np.ndarray, "..."] | None
    ) -> Float[np.ndarray, " O"]:
        checked = self._checked_state(state, "state")
        if previous is not None:
            if self.engine.caution is not None:
                self.prepare()
            return observe(self.engine.robot, checked, self._checked_state(previous, "previous_state"))
        self.prepare()
        x = features(self.engine.robot, checked)
        return np.concatenate([x, np.zeros_like(x) if self._velocity is None else self._velocity])

    def _checked_state(self, state: Float[np.ndarray, "..."], name: str) -> Float[np.ndarray, " S"]:
        robot = self.engine.robot
        state = np.asarray(state, dtype=np.float64)
        if state.shape != (robot.state_size,):
            raise InputError(
                f"{name!r} has shape {state.shape}; robot {robot.name!r} has {robot.state_size} dimensions"
            )
        if not np.isfinite(state).all():
            names = [robot.state_names[i] for i in np.flatnonzero(~np.isfinite(state))]
            raise InputError(f"{name!r} holds NaN or infinity in {names}")
        return state
