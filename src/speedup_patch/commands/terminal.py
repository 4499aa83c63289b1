"""What the commands share: where they print, and how many processes they may use."""

import json
import os
import sys

from rich.console import Console


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=2))


def terminal() -> Console:
    """Where tables go: as wide as the terminal, or 120 columns when stdout is a file or a pipe."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def available_cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
