"""Shifting and scaling every dimension to mean 0 and standard deviation 1."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Normalizer:
    """What to subtract and divide by, per dimension."""

    mean: Float[np.ndarray, " D"]
    std: Float[np.ndarray, " D"]

    def __post_init__(self) -> None:
        if self.mean.shape != self.std.shape:
            raise ValueError(f"mean and std differ in size: {self.mean.shape} and {self.std.shape}")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and (self.std > 0).all()):
            raise ValueError(f"mean must be finite and std positive, got {self.mean} and {self.std}")

    @classmethod
    def fit(cls, values: Float[np.ndarray, "*B D"], minimum_std: float = 1e-4) -> "Normalizer":
        """The mean and standard deviation over all rows; a dimension that varies by less than ``minimum_std`` is only
        shifted (std 1), so that a value off its constant does not become a huge input. No rows: ValueError."""
        rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
        if len(rows) == 0:
            raise ValueError("cannot normalise: there are no rows to take a mean of")
        std = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(std < minimum_std, 1.0, std))

    def apply(self, values: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B D"]:
        """Normalised values, in the precision they came in."""
        return ((values - self.mean) / self.std).astype(values.dtype, copy=False)

    def invert(self, values: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B D"]:
        """The values that ``apply`` turns into these."""
        return (values * self.std + self.mean).astype(values.dtype, copy=False)

    def to_arrays(self) -> dict[str, Float[np.ndarray, " D"]]:
        """What to save: ``mean`` and ``std``."""
        return {"mean": self.mean, "std": self.std}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float[np.ndarray, " D"]]) -> "Normalizer":
        """The inverse of ``to_arrays``."""
        return cls(arrays["mean"], arrays["std"])
