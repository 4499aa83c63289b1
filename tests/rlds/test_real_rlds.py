"""What tensorflow-datasets writes is read as it reads it itself (run with ``make test-rlds``)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlds.known_episodes import DROID, LIBERO, KnownEpisode, droid_episodes, libero_episodes
from speedup_patch.datasets import Selection, read_datasets
from speedup_patch.datasets.rlds import open_rlds
from speedup_patch.datasets.source import RawEpisode
from speedup_patch.errors import InputError

pytestmark = pytest.mark.rlds
FIXTURE = Path(__file__).parents[1] / "fixtures" / "rlds"
CASES = [(LIBERO, libero_episodes()), (DROID, droid_episodes())]


@pytest.fixture(scope="module")
def tfds() -> Any:
    return pytest.importorskip("tensorflow_datasets")


@pytest.fixture(scope="module")
def writer(tfds: Any) -> Any:
    from rlds import write_fixture

    return write_fixture


def _read(path: Path) -> list[RawEpisode]:
    source = open_rlds(path)
    episodes = list(source.read([entry.number for entry in source.entries()], list(source.columns)))
    assert all(isinstance(episode, RawEpisode) for episode in episodes)
    return [episode for episode in episodes if isinstance(episode, RawEpisode)]


def _as_they_read(tfds: Any, folder: Path) -> list[dict[str, list[Any]]]:
    """Every episode as tensorflow-datasets gives it: its columns by name, one value per step."""
    episodes = tfds.builder_from_directory(str(folder)).as_dataset(split="train", shuffle_files=False)
    return [_by_name(list(episode["steps"].as_numpy_iterator())) for episode in episodes]


def _by_name(steps: list[Any], name: str = "") -> dict[str, list[Any]]:
    if not isinstance(steps[0], dict):
        return {name: steps}
    listed = (_by_name([step[key] for step in steps], f"{name}/{key}".lstrip("/")) for key in steps[0])
    return {name: column for columns in listed for name, column in columns.items()}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(("name", "known"), CASES)
def test_we_read_what_the_library_reads(
    tfds: Any, writer: Any, tmp_path: Path, name: str, known: list[KnownEpisode], shards: int
) -> None:
    folder = writer.write(tmp_path, name, known, shards)
    ours, theirs = _read(tmp_path / name), _as_they_read(tfds, folder)
    assert len(ours) == len(theirs) == len(known)
    for found, expected in zip(ours, theirs, strict=True):
        assert found.task == expected["language_instruction"][0].decode()
        for column, table in found.columns.items():
            np.testing.assert_array_equal(table, np.stack(expected[column]).reshape(table.shape).astype(np.float32))


@pytest.mark.parametrize(("name", "known"), CASES)
def test_the_numbers_are_those_that_were_written(
    writer: Any, tmp_path: Path, name: str, known: list[KnownEpisode]
) -> None:
    writer.write(tmp_path, name, known)
    by_length = {len(episode): episode for episode in known}  # the library shuffles what it writes
    for found in _read(tmp_path / name):
        expected = by_length.pop(len(found.columns["action"]))
        assert set(found.columns) == set(expected.columns)
        for column, table in expected.columns.items():
            np.testing.assert_array_equal(found.columns[column], table.astype(np.float32))
    assert not by_length


@pytest.mark.parametrize(("name", "known"), CASES)
def test_the_fixture_is_what_the_library_writes(
    tfds: Any, writer: Any, tmp_path: Path, name: str, known: list[KnownEpisode]
) -> None:
    folder = writer.write(tmp_path, name, known, writer.SHARDS[name])
    fixture = FIXTURE / name / "1.0.0"
    assert {file.name for file in fixture.iterdir()} == {file.name for file in folder.iterdir()}
    assert (fixture / "features.json").read_text() == (folder / "features.json").read_text()
    for left, right in zip(_read(fixture), _read(folder), strict=True):
        assert left.task == right.task
        for column, table in left.columns.items():
            np.testing.assert_array_equal(table, right.columns[column])


def test_an_episode_without_steps_is_refused_by_name(writer: Any, tmp_path: Path) -> None:
    empty = KnownEpisode("", {name: table[:0] for name, table in libero_episodes()[0].columns.items()})
    writer.write(tmp_path, LIBERO, [empty, libero_episodes()[0]])
    reading = read_datasets([tmp_path / LIBERO], Selection(control_hz=20.0, skip_bad=True))
    assert len(reading.demonstrations) == 1
    assert "has no rows" in reading.left_out[0].problem


def test_another_file_format_is_refused_by_name(writer: Any, tmp_path: Path) -> None:
    writer.write(tmp_path, LIBERO, libero_episodes(), file_format="array_record")
    with pytest.raises(InputError, match="its file format is 'array_record'; only 'tfrecord' can be read"):
        open_rlds(tmp_path / LIBERO)
