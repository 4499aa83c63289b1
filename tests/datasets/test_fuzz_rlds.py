"""Damaged RLDS folders: refused or read, never NaN, never anything but an ``InputError``."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlds.known_episodes import LIBERO
from speedup_patch.datasets import Selection, read_datasets
from speedup_patch.datasets.rlds import open_rlds
from speedup_patch.datasets.source import BadEpisode
from speedup_patch.datasets.tfrecord import RecordFile, masked_checksum
from speedup_patch.errors import InputError

FIXTURE = Path(__file__).parents[1] / "fixtures" / "rlds" / LIBERO / "1.0.0"
SHARD = "libero_tiny-train.tfrecord-00000-of-00002"
DAMAGE = st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose files are overwritten again and again."""
    return Path(shutil.copytree(FIXTURE, tmp_path_factory.mktemp("damaged") / "1.0.0"))


def _damaged(content: bytes, damage: list[tuple[int, int]]) -> bytes:
    changed = bytearray(content)
    for place, bits in damage:
        changed[place % len(changed)] ^= bits
    return bytes(changed)


def _read_everything(folder: Path) -> None:
    """Every column as it is, then what the shared checks make of the state and the action."""
    try:
        source = open_rlds(folder)
        for episode in source.read([entry.number for entry in source.entries()], list(source.columns)):
            assert isinstance(episode, BadEpisode) or set(episode.columns) == set(source.columns)
        found = read_datasets([folder], Selection(control_hz=20.0, skip_bad=True)).demonstrations
    except InputError:
        return
    for episode in found:
        assert np.isfinite(episode.states).all()
        assert np.isfinite(episode.actions).all()


@given(damage=DAMAGE, length=st.none() | st.integers(0, 2**31))
@settings(max_examples=30)
def test_damaged_shards(folder: Path, damage: list[tuple[int, int]], length: int | None) -> None:
    content = (FIXTURE / SHARD).read_bytes()
    (folder / SHARD).write_bytes(_damaged(content, damage) if length is None else content[: length % len(content)])
    _read_everything(folder)


@given(damage=DAMAGE)
@settings(max_examples=30)
def test_damaged_records_with_a_right_checksum(folder: Path, damage: list[tuple[int, int]]) -> None:
    with RecordFile(FIXTURE / SHARD) as records:
        contents = [_damaged(records.read(0), damage), records.read(1)]
    framed = bytearray()
    for content in contents:
        header = struct.pack("<Q", len(content))
        framed += header + struct.pack("<I", masked_checksum(header))
        framed += content + struct.pack("<I", masked_checksum(content))
    (folder / SHARD).write_bytes(framed)
    _read_everything(folder)


@given(name=st.sampled_from(["dataset_info.json", "features.json"]), damage=DAMAGE)
@settings(max_examples=30)
def test_damaged_descriptions(folder: Path, name: str, damage: list[tuple[int, int]]) -> None:
    (folder / SHARD).write_bytes((FIXTURE / SHARD).read_bytes())
    (folder / name).write_bytes(_damaged((FIXTURE / name).read_bytes(), damage))
    try:
        _read_everything(folder)
    finally:
        (folder / name).write_bytes((FIXTURE / name).read_bytes())
