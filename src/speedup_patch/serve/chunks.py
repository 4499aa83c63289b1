"""What the proxy reads from an observation and changes in a reply."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.robots import Robot
from speedup_patch.serve.wire import pack, read_array, scan, with_entry

OPENPI_STATE_KEYS: dict[str, tuple[str, ...]] = {
    "aloha": ("state",),
    "droid": ("observation/joint_position", "observation/gripper_position"),
    "panda_libero": ("observation/state",),
}
"""Where openpi's own clients put the state, by robot; several keys are joined."""


@runtime_checkable
class Shortened(Protocol):
    """What became of one chunk."""

    @property
    def actions(self) -> np.ndarray: ...
    @property
    def done(self) -> float: ...
    @property
    def rate(self) -> float: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def seconds(self) -> float: ...


@runtime_checkable
class Accelerator(Protocol):
    """The part of the runtime's ChunkAccelerator that the proxy uses."""

    def shorten(self, chunk: np.ndarray, state: np.ndarray) -> Shortened: ...
    def prepare(self) -> None: ...
    def jumped(self, state: np.ndarray) -> bool: ...
    def reset(self) -> None: ...


@dataclass(frozen=True)
class Reply:
    """A reply on its way to the client, and how it came about; ``decision`` is None when it carries no actions."""

    message: bytes
    decision: Shortened | None = None
    original_rows: int = 0
    padded_rows: int = 0


def choose_state_keys(robot: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The keys to read the state from: those given, or the ones that openpi uses for this robot."""
    if given:
        return given
    if robot not in OPENPI_STATE_KEYS:
        known = ", ".join(sorted(OPENPI_STATE_KEYS))
        raise InputError(
            f"openpi has no state key of its own for robot {robot!r} (it has for {known}): "
            "name the key of the observation that holds the state with --state-key"
        )
    return OPENPI_STATE_KEYS[robot]


def read_state(observation: bytes, keys: tuple[str, ...]) -> Float[np.ndarray, " S"]:
    """The state in an observation: the values of ``keys``, flattened and joined."""
    values = scan(observation, "the observation").values
    parts: list[np.ndarray] = []
    for key in keys:
        if key not in values:
            found = ", ".join(repr(name) for name in list(values)[:20])
            raise InputError(f"the observation has no {key!r}; it has {found}: choose the state with --state-key")
        part = read_array(observation[values[key]], f"{key!r} in the observation")
        if part.dtype.kind not in "biuf":
            raise InputError(f"{key!r} in the observation holds {part.dtype}, not numbers")
        parts.append(part.reshape(-1).astype(np.float64))
    return np.concatenate(parts)


def shorten_reply(
    message: bytes,
    accelerator: Accelerator,
    observe: Callable[[], Float[np.ndarray, " S"]],
    robot: Robot,
    minimum_rows: int,
) -> Reply:
    """The reply with its ``actions`` shortened, of the same dtype; every other byte is the policy server's.

    ``observe`` gives the state of the observation that this reply answers; it is asked only if there are actions.
    """
    entries = scan(message, "the policy server's reply")
    if "actions" not in entries.values:
        return Reply(message)
    chunk = read_array(message[entries.values["actions"]], "'actions' in the policy server's reply")
    if chunk.dtype.kind != "f" or chunk.ndim != 2:
        raise InputError(
            f"'actions' in the policy server's reply is {chunk.dtype} of shape {chunk.shape}; "
            "floats of shape (rows, dimensions) are needed"
        )
    original = chunk.astype(np.float64)
    decision = accelerator.shorten(original, observe())
    if decision.actions.shape == original.shape and np.array_equal(decision.actions, original):
        return Reply(message, decision, len(chunk))
    actions = pad_rows(decision.actions, robot, min(minimum_rows, len(chunk)))
    changed = with_entry(message, entries, "actions", pack(actions.astype(chunk.dtype)))
    return Reply(changed, decision, len(chunk), len(actions) - len(decision.actions))


def pad_rows(actions: Float[np.ndarray, "l A"], robot: Robot, rows: int) -> Float[np.ndarray, "r A"]:
    """The chunk followed by rows that ask for nothing new: targets and grippers held, motions zero."""
    missing = rows - len(actions)
    if missing <= 0:
        return actions
    idle = actions[-1].copy()
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode == "delta":
            idle[part] = 0.0
    return np.concatenate([actions, np.tile(idle, (missing, 1))])
