"""``sup check``."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from speedup_patch.commands.reading import Datasets, ReadingOptions, left_out_json, refuse_other_rate
from speedup_patch.commands.terminal import print_json, terminal
from speedup_patch.errors import InputError

if TYPE_CHECKING:
    from speedup_patch.runtime.patch_folder import LoadedPatch


def check(
    patch: tyro.conf.Positional[Path],
    datasets: Datasets = (),
    *,
    log: Path | None = None,
    reading: tyro.conf.OmitArgPrefixes[ReadingOptions] = ReadingOptions(),  # noqa: B008
    json: bool = False,
) -> None:
    """Judge a patch offline: what each rate would do on held-out states, and how the scheduler chooses; or look back at
    what it did on the robot.

    Args:
        patch: A patch folder.
        datasets: The data it was trained on (its held-out episodes are used), or other data of the same robot.
        log: A decision log that the patch wrote while it ran, instead of data.
        reading: What is read; columns and frequency are those that the patch was trained with when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.check import check_patch
    from speedup_patch.known_outcomes import outcome_lines, outcomes_like, predicted_violating, read_outcomes
    from speedup_patch.runtime.patch_folder import load_patch
    from speedup_patch.tables import check_lines, check_table

    loaded = load_patch(patch)
    if log is not None and datasets:
        raise InputError("a patch is judged on data or, with --log, on a decision log: give one of them")
    if log is not None:
        return _check_log(loaded, log, json)
    if not datasets:
        raise InputError("name the data to judge the patch on, or with --log a decision log")
    read = _as_trained(reading, loaded.provenance).read(datasets, loaded.robot)
    refuse_other_rate(loaded.robot, read, patch)
    found = check_patch(loaded, read.demonstrations)
    known = outcomes_like(predicted_violating(found), *read_outcomes())
    if json:
        print_json({**asdict(found), "outcomes_of_such_figures": asdict(known), "left_out": left_out_json(read)})
        return
    terminal().print(check_table(found))
    for line in (*check_lines(found), *outcome_lines(known)):
        print(line)


def _check_log(patch: "LoadedPatch", folder: Path, json: bool) -> None:
    from speedup_patch.log_check import check_log, log_lines
    from speedup_patch.runtime.decision_log import read_decisions

    found = check_log(patch, read_decisions(folder))
    if json:
        return print_json(asdict(found))
    for line in log_lines(found):
        print(line)


def _as_trained(options: ReadingOptions, provenance: dict[str, Any]) -> ReadingOptions:
    """The options, with the columns and the frequency of the training data where none are given."""
    selected = provenance.get("data", {}).get("selection", {})
    return replace(
        options,
        state=options.state or tuple(selected.get("state", ())),
        action=options.action or tuple(selected.get("action", ())),
        control_hz=options.control_hz or selected.get("control_hz"),
    )
