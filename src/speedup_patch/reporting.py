"""How long work tells of its progress."""

from collections.abc import Callable, Mapping

Report = Callable[[str, int, int, Mapping[str, float]], None]
"""Told of progress: (stage, step, total steps, figures)."""


def silent(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
    """A report that tells nobody."""
