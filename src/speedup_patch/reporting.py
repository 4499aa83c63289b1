"""How long work tells of its progress."""

from collections.abc import Callable, Mapping

Report = Callable[[str, int, int, Mapping[str, float]], None]
"""Told of progress: (stage, step, total steps, figures); without figures when only the step is new."""

HELD_OUT = "held_out_"
"""What the name of a figure starts with when it was measured on held-out data."""


def silent(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
    """A report that tells nobody."""


def together(*reports: Report) -> Report:
    """A report that tells all of these, in this order."""

    def report(stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
        for each in reports:
            each(stage, step, total, figures)

    return report
