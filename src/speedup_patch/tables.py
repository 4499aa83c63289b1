"""Figures as tables and lines for the terminal."""

from collections.abc import Sequence

from rich.table import Table

from speedup_patch.check import PatchCheck


def check_table(check: PatchCheck) -> Table:
    """What each option would do."""
    rows = [
        (
            figures.label,
            f"{figures.violation_share:.1%}",
            f"{figures.deviation_median:.4f}",
            f"{figures.deviation_p95:.4f}",
            f"{figures.speedup:.2f}x",
            f"{figures.chosen_share:.1%}",
        )
        for figures in check.options
    ]
    return text_table(("option", "violations", "deviation p50", "p95", "speedup", "chosen"), rows)


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Table:
    """A table for the terminal; the first column reads left, the others right."""
    table = Table(title=title)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table


def check_lines(check: PatchCheck) -> list[str]:
    """How the scheduler chooses, in words."""
    kind = "held-out" if check.held_out else "all"
    lines = [f"{check.states} states from {check.episodes} {kind} episodes"]
    for where, figures in (("as demonstrated", check.demonstrated), ("reached at speed", check.accelerated)):
        if figures is not None:
            lines.append(
                f"{where}: mean rate {figures.rate_mean:.2f} (greedy {figures.greedy_rate_mean:.2f}), "
                f"predicted speedup {figures.speedup:.2f}x, agrees with greedy {figures.agreement:.1%}, "
                f"violating choices {figures.violating:.2%}"
            )
    return lines
