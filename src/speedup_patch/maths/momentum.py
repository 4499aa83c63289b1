"""What a moving arm does by itself under motion commands: how far it runs on, and where that leaves a chunk's path."""

import numpy as np
from jaxtyping import Float

from speedup_patch.maths.paths import nearest_on_polyline

USUAL = 0.9
"""The share of all steps that tell how an arm moves freely; in the others something may have held it."""
SETTLING = 0.5
"""The share of its first velocity that an arm is taken to keep from one step to the next, where what that comes to is
fitted (``world_model.network``)."""


def impulse_response(
    commands: list[Float[np.ndarray, "_ D"]],
    motions: list[Float[np.ndarray, "_ D"]],
    steps: int,
    usual: float = 1.0,
) -> tuple[Float[np.ndarray, " steps"], float]:
    """(h, explained): the motion h[k] that one unit of command makes k steps later, the same along all D axes, and the
    share of all motion that this explains; ``motions[t]`` is what happened while ``commands[t]`` was followed. Zero
    without motion or data, and where commands hardly change, so that they do not tell early from late.

    With ``usual`` below 1 the fit is repeated on the share of all steps that it explains best.
    """
    rows = [
        np.stack([command[steps - 1 - k : len(command) - k] for k in range(steps)], axis=-1).reshape(-1, steps)
        for command in commands
        if len(command) >= steps
    ]
    moved = [motion[steps - 1 :].reshape(-1) for motion in motions if len(motion) >= steps]
    if not rows or not np.concatenate(moved).any():
        return np.zeros(steps), 0.0
    told, seen = np.concatenate(rows), np.concatenate(moved)
    response, explained = _fit(told, seen)
    for _ in range(2 if usual < 1 else 0):
        missed = np.abs(seen - told @ response)
        near = missed <= np.quantile(missed, usual)
        response, explained = _fit(told[near], seen[near])
    return response, explained


def _fit(
    told: Float[np.ndarray, "rows steps"], seen: Float[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, " steps"], float]:
    response, _, rank, _ = np.linalg.lstsq(told, seen, rcond=1e-6)
    if rank < told.shape[1] or not seen.any():
        return np.zeros(told.shape[1]), 0.0
    return response, 1.0 - float(np.square(seen - told @ response).sum() / np.square(seen).sum())


def response_lag(response: Float[np.ndarray, " steps"]) -> tuple[float, float]:
    """(lag, gain): by how many steps an answer to a command comes late on average, and what it comes to."""
    gain = float(response.sum())
    return (max(float(response @ np.arange(len(response))) / gain, 0.0), gain) if gain > 0 else (0.0, 0.0)


def free_motion(
    velocity: Float[np.ndarray, " D"],
    commands: Float[np.ndarray, "l D"],
    lags: Float[np.ndarray, " D"],
    gains: Float[np.ndarray, " D"],
) -> Float[np.ndarray, " D"]:
    """How far an arm that nothing holds gets while it is told these motions, from a velocity of so much per step."""
    kept, way = lags / (1.0 + lags), np.zeros_like(velocity)
    for command in commands:
        velocity = kept * velocity + (1.0 - kept) * gains * command
        way = way + velocity
    return way


def carried_motion(
    chunks: Float[np.ndarray, "N n D"], velocities: Float[np.ndarray, "N D"], lag: float, gain: float, beyond: float
) -> Float[np.ndarray, "N D"]:
    """How far off its path, in units of command, an arm would come to rest that enters a chunk of motions too fast.

    An arm that moves ``gain`` per unit of command and step, ``lag`` steps late, runs on by ``lag`` times its velocity.
    At the pace that a policy was taught, that velocity is what its first command makes; whatever is more ends ahead of
    the path, which is harmless as long as the path goes on that way, or beside it, which is what is returned. The path
    is taken to go on for ``beyond`` steps as it ends.
    """
    path = np.concatenate([np.zeros_like(chunks[:, :1]), np.cumsum(chunks, axis=1)], axis=1)
    ahead = path[:, -1] + lag * (velocities / gain - chunks[:, 0])
    longer = np.concatenate([path, path[:, -1:] + beyond * chunks[:, -1:]], axis=1)
    return ahead - nearest_on_polyline(longer, ahead)
