"""Damaged files: every one is read without a value that is not finite, or refused with an ``InputError``.

Bytes are changed, cut off or put in; nothing else may come out than episodes that can be used, or a clear error.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lerobot_sample import sample
from speedup_patch.data import Demonstrations
from speedup_patch.datasets import Selection, read_datasets, write_demonstrations
from speedup_patch.errors import InputError

V21 = Path(__file__).parent / "lerobot_v21"
Damage = Callable[[bytes], bytes]

PLACES = st.floats(0, 1, exclude_max=True)
FLIPS = st.lists(st.tuples(PLACES, st.integers(1, 255)), min_size=1, max_size=4)


def _flip(flips: list[tuple[float, int]]) -> Damage:
    def damage(content: bytes) -> bytes:
        changed = bytearray(content)
        for place, bits in flips:
            changed[int(place * len(changed))] ^= bits
        return bytes(changed)

    return damage


def _overwrite(place: float, new: bytes) -> Damage:
    return lambda content: content[: (at := int(place * len(content)))] + new + content[at + len(new) :]


def _insert(place: float, new: bytes) -> Damage:
    return lambda content: content[: (at := int(place * len(content)))] + new + content[at:]


def _cut(place: float) -> Damage:
    return lambda content: content[: int(place * len(content))]


DAMAGES = st.one_of(
    st.builds(_flip, FLIPS),
    st.builds(_overwrite, PLACES, st.binary(min_size=1, max_size=12)),
    st.builds(_insert, PLACES, st.binary(min_size=1, max_size=12)),
    st.builds(_cut, PLACES),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample in every format."""
    folder = tmp_path_factory.mktemp("whole")
    write_demonstrations(sample(), folder / "v3")
    write_demonstrations(sample(), folder / "packed.npz")
    with np.load(folder / "packed.npz") as archive:
        np.savez(folder / "plain.npz", **archive)
    shutil.copytree(V21, folder / "v21")
    return {name: folder / name for name in ("v3", "v21", "packed.npz", "plain.npz")}


def _assert_usable(demonstrations: Demonstrations) -> None:
    for episode in demonstrations:
        assert len(episode) > 0
        for column in (episode.states, episode.actions, episode.timestamps[:, None], *episode.extras.values()):
            assert len(column) == len(episode)
            assert np.isfinite(column).all()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("v3", "data/chunk-000/file-000.parquet"),
        ("v3", "meta/episodes/chunk-000/file-000.parquet"),
        ("v3", "meta/tasks.parquet"),
        ("v3", "meta/info.json"),
        ("v21", "data/chunk-000/episode_000001.parquet"),
        ("v21", "meta/episodes.jsonl"),
        ("v21", "meta/tasks.jsonl"),
        ("v21", "meta/info.json"),
        ("packed.npz", ""),
        ("plain.npz", ""),
    ],
)
@given(damage=DAMAGES, skip_bad=st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_refused_or_harmless(
    whole: dict[str, Path], name: str, file: str, damage: Damage, skip_bad: bool
) -> None:
    path = whole[name] / file if file else whole[name]
    content = path.read_bytes()
    # A new file each time: one that is mapped into memory must not be written to.
    path.unlink()
    path.write_bytes(damage(content))
    try:
        _assert_usable(read_datasets([whole[name]], Selection(skip_bad=skip_bad)).demonstrations)
    except InputError as error:
        refusal = str(error)
    else:
        refusal = ""
    finally:
        path.unlink()
        path.write_bytes(content)
    assert not refusal or str(whole[name]) in refusal
