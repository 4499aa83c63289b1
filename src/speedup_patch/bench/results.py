"""A part's results: one JSON file that grows suite by suite, and the CSV file and Markdown table made from it."""

import csv
import io
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from string import Formatter
from typing import Any

from speedup_patch import __version__
from speedup_patch.artefacts import read_json, write_json, write_text_atomically
from speedup_patch.envs.seeds import common_scenes

Row = dict[str, Any]
"""One line of a table: text, whole numbers, numbers, or None where the data cannot tell."""

PACKAGES = ("numpy", "scipy", "onnxruntime", "mujoco", "robosuite", "hf-libero", "gym-aloha")


@dataclass(frozen=True)
class FurtherTable:
    """A second table of the same rows: a sentence about it, and its columns as in a ``Layout``, the first two of which
    say whose row it is."""

    title: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """How a part's rows are written: the file's name, a sentence about them, and the columns of the Markdown table."""

    name: str
    title: str
    columns: Mapping[str, str]
    """Column title -> what is in it, written as for ``str.format`` with the row's names."""
    key: str | None = None
    """What tells a suite's rows apart where they can be measured one by one; None where all are measured together."""
    further: tuple[FurtherTable, ...] = ()
    """Written below, as far as any row has their figures."""


def record(command: str, seeds: Sequence[int]) -> dict[str, Any]:
    """How figures were made: the command, the seeds, what those are for, and the versions of what takes part."""
    versions = {"speedup_patch": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    made = {"command": command, "seeds": [min(seeds), max(seeds)], "scenes": common_scenes(seeds)}
    return made | {"versions": versions}


def comparable(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether what two calls recorded lets their rows stand in one table: same seeds, same policy, same versions."""
    return all(earlier.get(name) == now.get(name) for name in ("seeds", "policy_sha256", "versions"))


def save_rows(
    out: Path, layout: Layout, suite: str, rows: Sequence[Row], notes: Sequence[str], made: Mapping[str, Any]
) -> None:
    """Puts a suite's rows in place of its earlier ones and writes NAME.json, NAME.csv and NAME.md again.

    Rows that were measured before and are not now are kept where they are ``comparable``.
    """
    path = out / f"{layout.name}.json"
    suites: dict[str, Any] = read_json(path)["suites"] if path.exists() else {}
    finite = [_finite(row) for row in rows]
    if layout.key and suite in suites and comparable(suites[suite], made):
        earlier = [{"command": suites[suite]["command"]} | row for row in suites[suite]["rows"]]
        finite = replace_rows(earlier, finite, layout.key)
    suites[suite] = {**made, "notes": list(notes), "rows": finite}
    write_json(path, {"part": layout.name, "title": layout.title, "suites": suites})
    everything = [row for part in suites.values() for row in part["rows"]]
    write_text_atomically(out / f"{layout.name}.csv", write_csv(everything))
    tables = [(layout.title, layout.columns), *_measured_tables(layout, everything)]
    text = "\n".join(f"{title}\n\n{write_markdown(columns, everything)}" for title, columns in tables)
    write_text_atomically(out / f"{layout.name}.md", text)


def replace_rows(earlier: Sequence[Row], rows: Sequence[Row], key: str) -> list[Row]:
    """``earlier`` with the rows of the same key replaced in their place, and new ones at the end."""
    fresh = {row[key]: row for row in rows}
    known = [row[key] for row in earlier]
    return [fresh.get(row[key], row) for row in earlier] + [row for row in rows if row[key] not in known]


def write_csv(rows: Sequence[Row]) -> str:
    """Every figure of every row, unrounded; empty where the data cannot tell."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _measured_tables(layout: Layout, rows: Sequence[Row]) -> list[tuple[str, Mapping[str, str]]]:
    """(title, columns) of the further tables, without what no row knows."""
    tables: list[tuple[str, Mapping[str, str]]] = []
    for table in layout.further:
        whose, figures = list(table.columns.items())[:2], list(table.columns.items())[2:]
        known = [(head, template) for head, template in figures if any(_cell(template, row) != "-" for row in rows)]
        if known:
            tables.append((table.title, dict([*whose, *known])))
    return tables


def write_markdown(columns: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The table with rounded figures, and a dash where the data cannot tell; a column nobody measured is left out."""
    columns = {title: template for title, template in columns.items() if _measured(template, rows)}
    lines = [tuple(columns), ("---",) * 2 + ("---:",) * (len(columns) - 2)]
    lines += [tuple(_cell(template, row) for template in columns.values()) for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _measured(template: str, rows: Sequence[Row]) -> bool:
    names = {name for _, name, _, _ in Formatter().parse(template) if name}
    return any(names <= row.keys() for row in rows)


def _cell(template: str, row: Row) -> str:
    try:
        return template.format(**row)
    except (TypeError, KeyError):  # None has no digits, and an older row may lack a figure
        return "-"


def _finite(row: Row) -> Row:
    """JSON knows neither NaN nor infinity."""
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in row.items()}
