"""``sup report``."""

from pathlib import Path
from typing import Annotated

import tyro

from speedup_patch.commands.terminal import print_json


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    *,
    out: Path,
    counterfactual: tuple[Path, ...] = (),
    video: bool = False,
    json: bool = False,
) -> None:
    """Show how evaluation runs went on one page: tables, plots and timelines in a single HTML file to open or send.

    Args:
        runs: One or more run folders that `sup eval` wrote.
        out: The HTML file; replaced if it exists.
        counterfactual: Measured counterfactuals to show; those about the runs' environments are looked for otherwise.
        video: Also render one episode of each run, unpatched and patched side by side, from its traces.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.errors import InputError
    from speedup_patch.report.page import write_report

    if not runs:
        raise InputError("name at least one run folder, as `sup eval --out` wrote it")
    written = write_report(runs, out, counterfactual=counterfactual, video=video)
    if json:
        return print_json({"path": str(written.path), "bytes": written.bytes, "missing": list(written.missing)})
    for note in written.missing:
        print(f"missing: {note}")
    print(f"report -> {written.path} ({written.bytes / 1e6:.1f} MB)")
