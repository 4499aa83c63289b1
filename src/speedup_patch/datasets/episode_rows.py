"""How the rows of a table belong to episodes, for checks whose errors say where in the data set the fault is."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError


@dataclass(frozen=True, eq=False)
class EpisodeRows:
    """K episodes whose rows lie one after the other: the number and the length of each."""

    numbers: Int[np.ndarray, " K"]
    lengths: Int[np.ndarray, " K"]

    @cached_property
    def ends(self) -> Int[np.ndarray, " K"]:
        """The row after each episode's last."""
        return np.cumsum(self.lengths)

    @cached_property
    def starts(self) -> Int[np.ndarray, " K"]:
        """Each episode's first row."""
        return self.ends - self.lengths

    @cached_property
    def frame_index(self) -> Int[np.ndarray, " N"]:
        """Every row's place in its episode: 0, 1, 2, ..."""
        return np.arange(self.lengths.sum()) - np.repeat(self.starts, self.lengths)

    def where(self, row: int) -> str:
        """A row of the table in the user's terms: which episode, and which row of it."""
        place = int(np.searchsorted(self.ends, row, side="right"))
        return f"episode {self.numbers[place]}, row {row - int(self.starts[place])}"

    def refuse_non_finite(self, table: Float[np.ndarray, "N D"], name: str, source: str) -> None:
        """Raises an error that names the episode, its row and the dimension of the first NaN or infinity."""
        bad = ~np.isfinite(table)
        if bad.any():
            row, dimension = (int(i) for i in np.argwhere(bad)[0])
            raise InputError(
                f"{source}: {name!r} holds {table[row, dimension]} in {self.where(row)}, dimension {dimension}; "
                f"every value must be a finite {table.dtype}"
            )


def shared_extras(demonstrations: Demonstrations) -> dict[str, int]:
    """The further columns and their widths, which a file can hold only if they are the same in every episode."""
    first = {name: column.shape[1] for name, column in demonstrations.episodes[0].extras.items()}
    for number, episode in enumerate(demonstrations):
        columns = {name: column.shape[1] for name, column in episode.extras.items()}
        if columns != first:
            raise InputError(f"episode {number} has further columns {columns}, but episode 0 has {first}")
    return first
