"""How schedulers are called and drawn on the page: short names, one colour and symbol each."""

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from speedup_patch.evaluation.specs import parse_spec

HUES = 8
"""Colours for baselines that the style sheet defines, --hue-0 and up."""
SYMBOLS = ("square", "triangle-up", "cross", "pentagon", "triangle-down", "hexagon", "bowtie", "x")
PATCH_SYMBOLS = ("diamond", "star", "star-diamond", "diamond-tall")
"""The last patch that a run names, mostly the one it is about, gets the first of these."""


@dataclass(frozen=True)
class Style:
    """How one scheduler is drawn; a colour beginning with @ is looked up in the style sheet, light or dark."""

    label: str
    color: str
    symbol: str


def split_spec(spec: str) -> tuple[str, str | None]:
    """(what comes before the patch's path, the path), or (the whole spec, None) when it names no patch."""
    patch = parse_spec(spec).patch
    return (spec, None) if patch is None else (spec.removesuffix(patch), patch)


def is_patch(spec: str) -> bool:
    """Whether a scheduler is a trained patch itself, and no baseline."""
    return parse_spec(spec).is_patch


def short_labels(specs: Iterable[str]) -> dict[str, str]:
    """Each scheduler with its path cut to the shortest end that tells it from the others."""
    split = {spec: split_spec(spec) for spec in specs}
    labels = {spec: before if path is None else spec for spec, (before, path) in split.items()}
    for depth in (3, 2, 1):
        shorter = {
            spec: labels[spec] if path is None else before + "/".join(PurePath(path).parts[-depth:])
            for spec, (before, path) in split.items()
        }
        counts = Counter(shorter.values())
        labels = {spec: shorter[spec] if counts[shorter[spec]] == 1 else labels[spec] for spec in labels}
    return labels


def styles(runs: Sequence[Sequence[str]]) -> dict[str, Style]:
    """One style for every scheduler of the runs: the unpatched policy in ink, the last patch of each run in the accent
    colour, its other patches in a softer one, and each baseline in its own."""
    patches = [[spec for spec in run if is_patch(spec)] for run in runs]
    rank = {spec: len(own) - 1 - place for own in patches for place, spec in enumerate(own)}
    specs = list(dict.fromkeys(spec for run in runs for spec in run))
    labels = short_labels(specs)
    chosen: dict[str, Style] = {}
    baselines = 0
    for spec in specs:
        if spec == "base":
            chosen[spec] = Style(labels[spec], "@ink", "circle")
        elif is_patch(spec):
            color = "@accent-soft" if rank[spec] else "@accent"
            chosen[spec] = Style(labels[spec], color, PATCH_SYMBOLS[rank[spec] % len(PATCH_SYMBOLS)])
        else:
            hue, symbol = baselines % HUES, SYMBOLS[(baselines + baselines // HUES) % len(SYMBOLS)]
            chosen[spec] = Style(labels[spec], f"@hue-{hue}", symbol)
            baselines += 1
    return chosen


def plot_text(text: str) -> str:
    """Text for Plotly, which reads a little HTML in names and labels: nothing in it is taken for markup."""
    return html.escape(text, quote=False)
