"""``sup check``."""

from dataclasses import asdict
from pathlib import Path

import tyro

from speedup_patch.commands.terminal import print_json, terminal


def check(patch: tyro.conf.Positional[Path], dataset: tyro.conf.Positional[Path], *, json: bool = False) -> None:
    """Judge a patch offline: what each rate would do on held-out states, and how the scheduler chooses.

    Args:
        patch: A patch folder.
        dataset: The data set it was trained on (its held-out episodes are used), or another of the same robot.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.check import check_patch
    from speedup_patch.datasets import read_demonstrations
    from speedup_patch.patch import load_patch
    from speedup_patch.tables import check_lines, check_table

    found = check_patch(load_patch(patch), read_demonstrations(dataset))
    if json:
        print_json(asdict(found))
        return
    terminal().print(check_table(found))
    for line in check_lines(found):
        print(line)
