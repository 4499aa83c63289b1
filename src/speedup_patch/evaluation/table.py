"""The evaluation table, as rows of text for the terminal and for Markdown."""

from speedup_patch.evaluation.compare import SchedulerSummary

COLUMNS = ("scheduler", "success", "95% interval", "steps", "speedup", "95% interval", "mean rate")


def summary_rows(schedulers: dict[str, SchedulerSummary]) -> list[tuple[str, ...]]:
    """One row per scheduler, under COLUMNS."""
    return [(name, *_cells(summary)) for name, summary in schedulers.items()]


def markdown(schedulers: dict[str, SchedulerSummary]) -> str:
    """The table in Markdown."""
    lines = [COLUMNS, ("---", *["---:"] * (len(COLUMNS) - 1)), *summary_rows(schedulers)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _cells(summary: SchedulerSummary) -> tuple[str, ...]:
    low, high = summary.success_interval
    speed = summary.speedup_interval
    return (
        f"{summary.successes}/{summary.episodes}",
        f"{low:.2f} .. {high:.2f}",
        f"{summary.steps_mean:.0f}" if summary.steps_mean is not None else "-",
        f"{summary.speedup:.2f}x" if summary.speedup is not None else "-",
        f"{speed[0]:.2f} .. {speed[1]:.2f}" if speed else "-",
        f"{summary.rate_mean:.2f}",
    )
