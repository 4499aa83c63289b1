"""How findings name a few of many things."""

from collections.abc import Sequence

FEW = 5


def list_few(items: Sequence[object], few: int = FEW) -> str:
    """The first few, and how many more there are."""
    listed = ", ".join(str(item) for item in items[:few])
    return f"{listed} and {len(items) - few} more" if len(items) > few else listed


def name_episodes(numbers: Sequence[int], of: int) -> str:
    """How many episodes these are of how many, and the first few of them."""
    return f"{len(numbers)} of {of} episodes ({list_few(numbers)})"
