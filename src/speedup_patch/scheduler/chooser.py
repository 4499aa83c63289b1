"""The trained scheduler: argmax over the options of Q(o, A'), whatever computes Q."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.candidates import Candidates, Options, shorten_all
from speedup_patch.errors import DecisionError
from speedup_patch.interfaces import Scheduler, WorldModel
from speedup_patch.observations import batch_of_one
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.scheduler.inputs import CriticInputs
from speedup_patch.warp import Warp

QFunction = Callable[
    [Float[np.ndarray, "N O"], Float[np.ndarray, "N l A"], Int[np.ndarray, " N"]], Float[np.ndarray, " N"]
]
"""Q of N normalised observations and chunks, float32; chunks are padded with zeros to the longest, int32 lengths."""

ROWS_AT_ONCE = 4096


class LearnedChooser:
    """Picks the option with the largest Q, many chunks at a time."""

    def __init__(self, q: QFunction, inputs: CriticInputs, longest: int) -> None:
        self.q = q
        self.inputs = inputs
        self.longest = longest

    def q_values(self, observations: Float[np.ndarray, "N O"], options: Options) -> Float[np.ndarray, "N R"]:
        """Q(o, A') of every option; all go through Q together."""
        count, ways, _, size = options.chunks.shape
        rows = np.zeros((count, ways, self.longest, size), dtype=np.float32)
        given = min(options.chunks.shape[2], self.longest)
        rows[:, :, :given] = self.inputs.encode_chunks(observations, options.chunks[:, :, :given])
        rows *= (np.arange(self.longest) < options.lengths[..., None])[..., None]
        rows = rows.reshape(-1, self.longest, size)
        encoded = np.repeat(self.inputs.encode_observations(observations), ways, axis=0)
        lengths = options.lengths.reshape(-1).astype(np.int32)
        parts = [slice(first, first + ROWS_AT_ONCE) for first in range(0, len(rows), ROWS_AT_ONCE)]
        values = [self.q(encoded[part], rows[part], lengths[part]) for part in parts]
        return np.concatenate(values).reshape(count, ways).astype(np.float64)

    def choose(self, observations: Float[np.ndarray, "N O"], options: Options) -> Int[np.ndarray, " N"]:
        """Which option is the best for every chunk; a Q that is not a number is an error, never a choice."""
        values = self.q_values(observations, options)
        if not np.isfinite(values).all():
            raise DecisionError(f"Q is not finite: {values[~np.isfinite(values).all(axis=1)][0]}")
        return values.argmax(axis=1)


class LearnedScheduler:
    """A Scheduler: the way of running the chunk that has the largest Q.

    Q errs on the side of caution where a policy's chunks are unlike the demonstrator's, as they are when it grasps: a
    chunk that would be left as it is goes to ``second``, a scheduler that is asked only then.
    """

    def __init__(
        self,
        chooser: LearnedChooser,
        candidates: Candidates,
        world_model: WorldModel,
        second: Scheduler | None = None,
    ) -> None:
        self.chooser = chooser
        self.candidates = candidates
        self.world_model = world_model
        self.second = second

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        """The best option's warp."""
        o, chunks, sent = observation[None], chunk[None], batch_of_one(before)
        paths = paths_at_rate_one(self.world_model, o, chunks, sent) if self.candidates.needs_path else None
        options = shorten_all(self.world_model.robot, self.candidates, paths, chunks)
        warp = chosen_warp(options, int(self.chooser.choose(o, options)[0]), self.candidates, len(chunk))
        if self.second is not None and len(warp) == len(chunk):
            return self.second.schedule(observation, chunk, before)
        return warp

    def reset(self) -> None:
        if self.second is not None:
            self.second.reset()


def chosen_warp(options: Options, choice: int, candidates: Candidates, original: int) -> Warp:
    """One option of the first chunk as a warp."""
    positions = options.positions[0, choice, : options.lengths[0, choice]]
    carried, path = (None if part is None else part[0] for part in (options.carried, options.paths))
    return Warp(positions, original, candidates.delays, carried, path)
