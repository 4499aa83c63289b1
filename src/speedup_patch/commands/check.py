"""``sup check``."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import tyro

from speedup_patch.commands.reading import Datasets, ReadingOptions, left_out_json, refuse_other_rate
from speedup_patch.commands.terminal import print_json, terminal


def check(
    patch: tyro.conf.Positional[Path],
    datasets: Datasets,
    *,
    reading: tyro.conf.OmitArgPrefixes[ReadingOptions] = ReadingOptions(),  # noqa: B008
    json: bool = False,
) -> None:
    """Judge a patch offline: what each rate would do on held-out states, and how the scheduler chooses.

    Args:
        patch: A patch folder.
        datasets: The data it was trained on (its held-out episodes are used), or other data of the same robot.
        reading: What is read; columns and frequency are those that the patch was trained with when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.check import check_patch
    from speedup_patch.runtime.patch_folder import load_patch
    from speedup_patch.tables import check_lines, check_table

    loaded = load_patch(patch)
    read = _as_trained(reading, loaded.provenance).read(datasets, loaded.robot)
    refuse_other_rate(loaded.robot, read, patch)
    found = check_patch(loaded, read.demonstrations)
    if json:
        print_json({**asdict(found), "left_out": left_out_json(read)})
        return
    terminal().print(check_table(found))
    for line in check_lines(found):
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
