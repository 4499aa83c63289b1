"""What an environment's seeds are for: one table for every simulator.

| seeds | scenes | for |
|---|---|---|
| 0 .. 49,999 | evaluation | tables; run once, at the end |
| 50,000 .. 99,999 | development | trying changes and choosing numbers |
| 100,000 .. 6,999,999 | demonstrations | ``sup collect``; 100,000 seeds for each collection |
| from 7,000,000 | fresh | nobody's: confirming a table on scenes that nothing was chosen on |

No scene belongs to two of them: ALOHA draws its objects from the seed; for LIBERO see ``choose_start``.
"""

from collections.abc import Sequence
from typing import Literal

from speedup_patch.errors import InputError

Scenes = Literal["evaluation", "development", "demonstrations", "fresh"]

DEVELOPMENT = 50_000
"""The first seed of development."""

DEMONSTRATIONS = 100_000
"""The first seed of demonstrations."""

FRESH = 7_000_000
"""The first of the seeds that are nobody's."""

SEEDS_PER_COLLECTION = 100_000

FIRST_SEEDS: dict[Scenes, int] = {
    "evaluation": 0,
    "development": DEVELOPMENT,
    "demonstrations": DEMONSTRATIONS,
    "fresh": FRESH,
}


def scenes_of(seed: int) -> Scenes:
    """What this seed is for."""
    if seed < 0:
        raise InputError(f"a seed must not be negative, not {seed}")
    purpose: Scenes = "evaluation"
    for scenes, first in FIRST_SEEDS.items():
        if first <= seed:
            purpose = scenes
    return purpose


def common_scenes(seeds: Sequence[int]) -> Scenes:
    """What all these seeds are for; refuses seeds of two kinds, whose mean would be of neither."""
    first, last = min(seeds), max(seeds)
    if scenes_of(first) != scenes_of(last):
        begins = ", ".join(f"{scenes} from {seed}" for scenes, seed in FIRST_SEEDS.items())
        raise InputError(f"seeds {first} .. {last} are of more than one kind: {begins}")
    return scenes_of(first)


def collection_seeds(collection: int) -> range:
    """The seeds of one collection of demonstrations."""
    last = (FRESH - DEMONSTRATIONS) // SEEDS_PER_COLLECTION - 1
    if not 0 <= collection <= last:
        raise InputError(f"a collection's seed must lie between 0 and {last}, not {collection}")
    first = DEMONSTRATIONS + SEEDS_PER_COLLECTION * collection
    return range(first, first + SEEDS_PER_COLLECTION)
