"""Actions that are not what was sent to the robot: copied states, normalised numbers."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from speedup_patch.inspect.frames import View
from speedup_patch.inspect.report import Finding

ALMOST_ALL = 0.95
FEWEST_DIMENSIONS, FEWEST_FRAMES = 3, 30


def find_command_faults(view: View) -> Iterator[Finding]:
    """Actions that equal states, and actions that were normalised."""
    yield from _copied_actions(view)
    yield from _normalised(view)


def driven_pairs(view: View) -> dict[int, int]:
    """Action -> the state it moves; without a robot, the one at the same place if there are as many."""
    if view.robot:
        return view.robot.drives
    same = view.frames.states.shape == view.frames.actions.shape
    return {i: i for i in range(view.frames.states.shape[1])} if same else {}


def _copied_actions(view: View) -> Iterator[Finding]:
    """Only frames that move count: while nothing moves, every command equals every state."""
    frames, pairs = view.frames, driven_pairs(view)
    actions, states = frames.actions[:, list(pairs)], frames.states[:, list(pairs.values())]
    moving = frames.joined & (states[1:] != states[:-1]).any(axis=1)
    if not moving.any():
        return
    close = 1e-6 * np.maximum(1.0, np.abs(states).max(axis=0))
    if (np.abs(actions[:-1] - states[1:]) <= close).all(axis=1)[moving].mean() > ALMOST_ALL:
        yield Finding(
            "actions_are_next_states",
            f"all {len(pairs)} target dimensions of the actions equal the next states",
            "they are not what was sent, so how the robot lags behind its commands cannot be learned from them",
            "record the commands themselves, such as the leader arm's joints, and choose them with --action",
        )
    if (np.abs(actions - states) <= close).all(axis=1)[:-1][moving].mean() > ALMOST_ALL:
        yield Finding(
            "actions_are_states",
            f"all {len(pairs)} target dimensions of the actions equal the states of the same row",
            "they command the robot to stay where it is, so nothing about its motion can be learned from them",
            "record the commands themselves, or choose another column with --action",
        )


def _normalised(view: View) -> Iterator[Finding]:
    frames, pairs = view.frames, driven_pairs(view)
    actions = frames.actions[:, np.ptp(frames.actions, axis=0) > 1e-6]
    if actions.shape[1] < FEWEST_DIMENSIONS or len(actions) < FEWEST_FRAMES:
        return
    standard = _standardised(actions)
    targets = [action for action in pairs if np.ptp(frames.actions[:, action]) > 1e-6]
    states = frames.states[:, [pairs[action] for action in targets]]
    scaled = len(targets) >= FEWEST_DIMENSIONS and _fills_unit_range(frames.actions[:, targets])
    if standard.mean() > 0.8 and not _standardised(states).mean() > 0.5:
        how = f"{standard.sum():.0f} of {len(standard)} action dimensions have mean 0 and standard deviation 1"
    elif scaled and not _fills_unit_range(states):
        how = f"the {len(targets)} target dimensions of the actions fill -1 .. 1, the states do not"
    else:
        return
    yield Finding(
        "normalised_actions",
        how,
        "they were normalised for a policy: they are not in the robot's units, and rates and limits mean nothing",
        "undo the normalisation with the policy's statistics, or choose the raw column with --action",
    )


def _standardised(table: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """1.0 where a dimension has mean 0 and standard deviation 1."""
    if table.shape[1] == 0:
        return np.zeros(1)
    return ((np.abs(table.mean(axis=0)) < 0.1) & (np.abs(table.std(axis=0) - 1) < 0.1)).astype(np.float64)


def _fills_unit_range(table: Float[np.ndarray, "N D"]) -> bool:
    """Whether the dimensions reach from -1 to 1, at their ends or at their 1% and 99% quantiles, as policies scale."""
    for share in (0.0, 0.01):
        low, high = np.quantile(table, [share, 1 - share], axis=0)
        if ((np.abs(low + 1) < 0.01) & (np.abs(high - 1) < 0.01)).mean() > 0.8:
            return True
    return False
