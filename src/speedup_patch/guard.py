"""Tells when a state or a chunk is unlike anything in the demonstrations."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.observations import features
from speedup_patch.robots import Robot

QUANTILE = 0.999
"""Share of held-out demonstration frames that the guard must let pass."""


@dataclass(frozen=True)
class Envelope:
    """Per dimension the demonstrated range, and how far outside of it is still familiar.

    The distance of a value is how far it lies outside [low, high], in units of the range; the worst dimension
    counts. ``tolerance`` is the quantile of that distance over held-out demonstrations, and never zero.
    """

    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]
    tolerance: float

    def distance(self, values: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """How far outside the demonstrated range, 0 inside."""
        span = np.maximum(self.high - self.low, 1e-6)
        outside = np.maximum(self.low - values, values - self.high) / span
        return np.maximum(outside.max(axis=-1), 0.0)

    def holds(self, values: Float[np.ndarray, "N D"]) -> bool:
        """Whether every row is familiar."""
        return bool((self.distance(values) <= self.tolerance).all())


@dataclass(frozen=True)
class Guard:
    """What was demonstrated, for states (features x) and for commands."""

    features: Envelope
    actions: Envelope

    def reason(self, x: Float[np.ndarray, " X"], chunk: Float[np.ndarray, "n A"]) -> str | None:
        """Why the original chunk should run unchanged, or None when all is familiar."""
        if not self.features.holds(x[None]):
            return "unfamiliar state"
        if not self.actions.holds(chunk):
            return "unfamiliar chunk"
        return None


def fit_guard(robot: Robot, training: Demonstrations, held_out: Demonstrations) -> Guard:
    """Ranges from the training episodes, tolerances from the held-out ones."""

    def envelope(seen: Float[np.ndarray, "N D"], unseen: Float[np.ndarray, "M D"]) -> Envelope:
        plain = Envelope(seen.min(axis=0), seen.max(axis=0), 0.0)
        outside = float(np.quantile(plain.distance(unseen), QUANTILE))
        # A held-out episode is like the training ones; half a range more lets a faster robot overshoot a little.
        return Envelope(plain.low, plain.high, max(2.0 * outside, 0.5))

    def all_features(demonstrations: Demonstrations) -> Float[np.ndarray, "N X"]:
        return np.concatenate([features(robot, episode.states) for episode in demonstrations])

    def all_actions(demonstrations: Demonstrations) -> Float[np.ndarray, "N A"]:
        return np.concatenate([episode.actions for episode in demonstrations])

    return Guard(
        envelope(all_features(training), all_features(held_out)),
        envelope(all_actions(training), all_actions(held_out)),
    )


def guard_to_json(guard: Guard) -> dict[str, object]:
    """The guard as plain lists and numbers."""
    return {
        name: {"low": part.low.tolist(), "high": part.high.tolist(), "tolerance": part.tolerance}
        for name, part in (("features", guard.features), ("actions", guard.actions))
    }


def guard_from_json(document: object, feature_count: int, action_count: int) -> Guard:
    """Reads what ``guard_to_json`` wrote; the sizes must fit."""
    parts: list[Envelope] = []
    for name, size in (("features", feature_count), ("actions", action_count)):
        try:
            part = document[name]  # pyright: ignore
            envelope = Envelope(
                np.asarray(part["low"], dtype=float), np.asarray(part["high"], dtype=float), float(part["tolerance"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the patch's guard is damaged: {name}: {error}") from error
        if envelope.low.shape != (size,) or envelope.high.shape != (size,):
            raise InputError(f"the patch's guard has {envelope.low.size} {name}, the robot has {size}")
        parts.append(envelope)
    return Guard(*parts)
