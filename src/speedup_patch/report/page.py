"""Puts the page together: everything that was read, in one HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedup_patch.artefacts import write_text_atomically
from speedup_patch.errors import InputError
from speedup_patch.evaluation.table import tasks_note
from speedup_patch.report.configuration import (
    Facts,
    PatchCard,
    evaluation_command,
    patch_card,
    report_command,
    report_versions,
    run_facts,
)
from speedup_patch.report.counterfactuals import Counterfactuals, find_counterfactuals
from speedup_patch.report.evidence import (
    counterfactual_figure,
    fallback_figure,
    training_figures,
    violation_figure,
)
from speedup_patch.report.figures import Figure, episode_figure, pareto_figure, task_figure
from speedup_patch.report.labels import Style, is_patch, styles
from speedup_patch.report.patches import FoundPatch, find_patches, judge_of
from speedup_patch.report.payload import Json, run_payload, script_json
from speedup_patch.report.reading import Run, read_run
from speedup_patch.report.table import COLUMNS, FurtherTable, Row, further_tables, table_rows
from speedup_patch.report.timelines import Traces, read_traces
from speedup_patch.report.videos import VIDEO_BYTES, Video, make_videos

TRACE_BYTES = 1_600_000
"""What the timelines of all runs may take of the page."""
PAGE_BYTES = 10_000_000


@dataclass(frozen=True, eq=False)
class RunView:
    """One run as the template shows it."""

    number: int
    run: Run
    rows: list[Row]
    further: list[FurtherTable]
    """What people get besides steps."""
    tasks_note: str
    highlights: list[Row]
    """The rows of the trained patches."""
    missing: list[str]
    figures: dict[str, Figure]
    training: list[Figure]
    facts: Facts
    command: str
    patches: list[PatchCard]
    videos: list[Video]
    payload: Json


@dataclass(frozen=True)
class Written:
    """What was written, and what it says is missing."""

    path: Path
    bytes: int
    missing: tuple[str, ...]


def write_report(
    folders: Sequence[Path], out: Path, *, counterfactual: Sequence[Path] = (), video: bool = False
) -> Written:
    """Reads run folders and writes one self-contained page about them."""
    page_tools = _page_tools()
    runs = [read_run(folder) for folder in folders]
    drawn = styles([run.schedulers for run in runs])
    views = [_view(number, run, drawn, 1.0 / len(runs), video) for number, run in enumerate(runs)]
    measured = find_counterfactuals(runs, counterfactual)
    options = [*(["--counterfactual", *map(str, counterfactual)] if counterfactual else []), *(["--video"] * video)]
    html = _render(
        page_tools,
        views=views,
        columns=COLUMNS,
        tasks=task_figure(runs, drawn),
        measured=[_measured_view(number, found) for number, found in enumerate(measured)],
        command_of_page=report_command(folders, out, options),
        versions=report_versions(),
    )
    size = len(html.encode())
    if size > PAGE_BYTES:
        raise InputError(f"the page would take {size / 1e6:.1f} MB, more than 10: report fewer runs at once")
    write_text_atomically(out, html)
    return Written(out, size, tuple(f"{view.run.folder}: {note}" for view in views for note in view.missing))


def _view(number: int, run: Run, drawn: Mapping[str, Style], share: float, video: bool) -> RunView:
    """One run, which may take this share of what all timelines and videos may take."""
    patches = find_patches(run)
    judge = judge_of(patches)
    traces = read_traces(run, judge)
    videos, no_video = make_videos(run, int(share * VIDEO_BYTES)) if video else ([], [])
    rows = table_rows(run.summaries, drawn)
    payload, shortened = run_payload(run, traces, judge, drawn, int(share * TRACE_BYTES))
    return RunView(
        number=number,
        run=run,
        rows=rows,
        further=further_tables(run.summaries, drawn),
        tasks_note=tasks_note(run.summaries),
        highlights=[row for row in rows if is_patch(row.spec)],
        missing=[*run.missing, *_patch_notes(patches), *traces.unreadable, *shortened, *no_video],
        figures=_figures(number, run, traces, judge, drawn),
        training=[
            figure for index, patch in enumerate(patches) for figure in training_figures(f"t{number}-{index}", patch)
        ],
        facts=run_facts(run),
        command=evaluation_command(run),
        patches=[patch_card(patch) for patch in patches],
        videos=videos,
        payload=payload,
    )


def _figures(
    number: int, run: Run, traces: Traces, judge: FoundPatch | None, drawn: Mapping[str, Style]
) -> dict[str, Figure]:
    return {
        "pareto": pareto_figure(f"pareto-{number}", run, drawn),
        "episodes": episode_figure(f"episodes-{number}", run, drawn),
        "violations": violation_figure(f"violations-{number}", run, traces, judge, drawn),
        "fallbacks": fallback_figure(f"fallbacks-{number}", run, drawn),
    }


def _patch_notes(patches: Sequence[FoundPatch]) -> list[str]:
    return [
        f"{patch.note}." if patch.named in patch.note else f"{patch.named}: {patch.note}."
        for patch in patches
        if patch.note
    ]


def _measured_view(number: int, found: Counterfactuals) -> dict[str, Any]:
    pooled = [
        (model, group, rates["pooled"])
        for model, groups in found.scores.items()
        for group, rates in groups.items()
        if "pooled" in rates
    ]
    figure = counterfactual_figure(f"counterfactual-{number}", found.scores, found.env, found.epsilon)
    return {"file": str(found.file), "command": found.command, "figure": figure, "pooled": pooled}


@dataclass(frozen=True, eq=False)
class _PageTools:
    """The two foreign libraries that the page is made with."""

    template: Any
    markup: Any
    plotly: str
    style: str
    script: str


def _page_tools() -> _PageTools:
    try:
        import jinja2
        import markupsafe
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise InputError(f"a report needs {error.name}: pip install 'speedup-patch[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("speedup_patch.report", "page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    folder = Path(__file__).parent / "page"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    return _PageTools(environment.get_template("page.html"), markupsafe.Markup, get_plotlyjs(), style, script)


def _render(
    tools: _PageTools, *, views: list[RunView], measured: list[dict[str, Any]], tasks: Figure, **more: Any
) -> str:
    figures = [figure for view in views for figure in (*view.figures.values(), *view.training)]
    figures += [tasks, *(found["figure"] for found in measured)]
    data = {
        "figures": {
            figure.name: {
                "title": figure.title,
                "traces": figure.traces,
                "layout": figure.layout or {},
                "height": figure.height,
            }
            for figure in figures
            if not figure.absent
        },
        "runs": [view.payload for view in views],
    }
    return tools.template.render(
        views=views,
        measured=measured,
        tasks=tasks,
        plotly=tools.markup(tools.plotly),
        style=tools.markup(tools.style),
        script=tools.markup(tools.script),
        data=tools.markup(script_json(data)),
        **more,
    )
