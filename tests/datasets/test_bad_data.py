"""Whatever is wrong with a data set is named: the file, the episode, the column, and what would be right.

The middle one of three episodes is spoilt; ``skip_bad`` must give the other two as they were.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lerobot_sample import LENGTHS, sample
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets import Selection, read_datasets, read_demonstrations, write_demonstrations
from speedup_patch.datasets.lerobot_v3_writer import write_lerobot_v3
from speedup_patch.errors import InputError
from speedup_patch.robots import ALOHA, Arm, StatePose

V21 = Path(__file__).parent / "lerobot_v21"
SPOILT = {"v3": "data/chunk-000/file-001.parquet", "v21": "data/chunk-000/episode_000001.parquet"}
ROWS = LENGTHS[1]
Edit = Callable[[pa.Table], pa.Table]


@pytest.fixture(params=list(SPOILT))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The sample as a LeRobot data set of either version, one file for each episode."""
    if request.param == "v21":
        shutil.copytree(V21, tmp_path / "v21")
    else:
        write_lerobot_v3(sample(), tmp_path / "v3", file_megabytes=1e-9)
    return tmp_path / request.param


def _set(name: str, values: Any, kind: pa.DataType | None = None) -> Edit:
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array(values, kind))


def _states(value: float) -> list[list[float]]:
    states = sample().episodes[1].states.astype(np.float64)
    states[4, 2] = value
    return states.tolist()


def _edit_info(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    info = json.loads((folder / "meta/info.json").read_text())
    edit(info)
    (folder / "meta/info.json").write_text(json.dumps(info))


def _assert_left_out(path: Path, *words: str) -> None:
    """Refused with all of these words, and left out on request, for the same reason."""
    with pytest.raises(InputError) as refused:
        read_demonstrations(path)
    assert "--skip-bad" in str(refused.value)
    reading = read_datasets([path], Selection(skip_bad=True))
    assert [bad.number for bad in reading.left_out] == [1]
    for word in ("episode 1", *words):
        assert word in str(refused.value)
        assert word in reading.left_out[0].problem
    kept = sample().select([0, 2])
    assert reading.demonstrations.fingerprint() == kept.fingerprint()
    assert [episode.task for episode in reading.demonstrations] == [episode.task for episode in kept]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda table: table.drop_columns(["action"]), ["lacks the column 'action'", "its columns are"]),
        (_set("observation.state", _states(np.nan)), ["'observation.state' holds nan", "row 4, dimension 2", "finite"]),
        (_set("observation.state", _states(np.inf)), ["'observation.state' holds inf", "row 4, dimension 2", "finite"]),
        (
            _set("observation.state", [*_states(0.0)[1:], [1.0]], pa.list_(pa.float32())),
            ["'observation.state' has 1 values", f"row {ROWS - 1}", "meta/info.json says 3"],
        ),
        (
            _set("observation.state", [*_states(0.0)[1:], None], pa.list_(pa.float32(), 3)),
            ["'observation.state' has 0 values", f"row {ROWS - 1}", "meta/info.json says 3"],
        ),
        (lambda table: table.slice(0, ROWS - 2), [f"has {ROWS - 2} rows", f"says {ROWS}"]),
        (lambda table: table.slice(0, 0), ["has 0 rows", f"says {ROWS}"]),
        (
            _set("frame_index", [0, 1, 3, 2, *range(4, ROWS)]),
            ["'frame_index' must count 0, 1, 2, ...", "it is 3 in episode 1, row 2"],
        ),
        (
            _set("timestamp", [0.0, 0.2, 0.1, *np.arange(3, ROWS)], pa.float32()),
            ["timestamps go back from 0.2 to 0.1 s", "row 2", "order of time"],
        ),
        (_set("timestamp", [np.nan] * ROWS, pa.float32()), ["timestamps hold nan", "row 0", "finite"]),
        (_set("task_index", [9] * ROWS), ["'task_index' is 9", "does not list"]),
        (_set("action", ["left"] * ROWS), ["'action' must hold lists of 2 numbers, not string"]),
    ],
)
def test_a_spoilt_episode_is_named_and_can_be_left_out(folder: Path, edit: Edit, words: list[str]) -> None:
    file = folder / SPOILT[folder.name]
    pq.write_table(edit(pq.read_table(file)), file)
    _assert_left_out(folder, str(file), *words)


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "other"])
def test_a_damaged_file_costs_only_its_own_episodes(folder: Path, damage: str) -> None:
    file = folder / SPOILT[folder.name]
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes({"empty": b"", "short": content[: len(content) // 2], "other": b"x" * 500}[damage])
    _assert_left_out(folder, str(file), "copy it again")


def test_damage_inside_a_file_costs_only_the_episodes_it_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speedup_patch.datasets.parquet_episodes.ROWS_AT_ONCE", 1)
    write_lerobot_v3(sample(), tmp_path / "data")
    file = tmp_path / "data/data/chunk-000/file-000.parquet"
    tables = [pq.read_table(file).slice(start, length) for start, length in ((0, 6), (6, 9), (15, 7))]
    with pq.ParquetWriter(file, tables[0].schema, compression="snappy") as writer:
        for table in tables:
            writer.write_table(table)
    columns = [pq.ParquetFile(file).metadata.row_group(1).column(i) for i in range(3)]
    place = next(c.dictionary_page_offset or c.data_page_offset for c in columns if "state" in c.path_in_schema)
    content = bytearray(file.read_bytes())
    content[place : place + 40] = bytes(40)
    file.write_bytes(content)
    _assert_left_out(tmp_path / "data", str(file), "is damaged where episode 1 lies", "copy it again")


def test_an_episode_without_rows_is_named(folder: Path) -> None:
    file = folder / SPOILT[folder.name]
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    _edit_info(folder, lambda info: info.update(total_frames=info["total_frames"] - ROWS))
    if folder.name == "v21":
        listed = (folder / "meta/episodes.jsonl").read_text().replace(f'"length": {ROWS}', '"length": 0')
        (folder / "meta/episodes.jsonl").write_text(listed)
    else:
        meta = folder / "meta/episodes/chunk-000/file-000.parquet"
        table = pq.read_table(meta)
        pq.write_table(_set("length", [LENGTHS[0], 0, LENGTHS[2]])(table), meta)
    _assert_left_out(folder, str(file), "has no rows", "at least one control step")


def test_a_data_set_of_pictures_alone_is_refused(folder: Path) -> None:
    def only_pictures(info: dict[str, Any]) -> None:
        info["features"] = {"observation.images.top": {"dtype": "video", "shape": [480, 640, 3], "names": None}}

    _edit_info(folder, only_pictures)
    with pytest.raises(InputError, match=f"{folder} has no column of numbers, only pictures.* record it"):
        read_demonstrations(folder)


def test_a_data_set_without_a_state_says_what_could_be_one(folder: Path) -> None:
    _edit_info(folder, lambda info: info["features"].pop("observation.state"))
    message = r"no column that is clearly the state; name it with --state.*'observation\.environment_state' \(2\)"
    with pytest.raises(InputError, match=message):
        read_demonstrations(folder)


def test_nothing_good_is_an_error_even_when_bad_episodes_are_left_out(folder: Path) -> None:
    for file in folder.glob("data/*/*.parquet"):
        file.write_bytes(b"")
    with pytest.raises(InputError, match=f"no episode of {folder} can be read; the first fault is .*parquet"):
        read_datasets([folder], Selection(skip_bad=True))


def _archive(path: Path, **changes: Any) -> Path:
    write_demonstrations(sample(), path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, change in changes.items():
        arrays[name] = change(arrays[name])
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("column", "row", "value", "words"),
    [
        ("states", 10, np.nan, ["column 'states' holds nan", "row 4, dimension 0", "finite"]),
        ("actions", 6, -np.inf, ["column 'actions' holds -inf", "row 0, dimension 0", "finite"]),
        ("extra/observation.force", 14, np.nan, ["column 'observation.force' holds nan", "row 8", "finite"]),
        ("timestamps", 10, np.nan, ["timestamps hold nan", "row 4", "finite"]),
        ("timestamps", 10, 0.0, ["timestamps go back", "row 4", "order of time"]),
    ],
)
def test_a_spoilt_episode_of_an_archive_can_be_left_out(
    tmp_path: Path, column: str, row: int, value: float, words: list[str]
) -> None:
    def spoil(array: np.ndarray) -> np.ndarray:
        array[row] = value
        return array

    path = _archive(tmp_path / "data.npz", **{column: spoil})
    _assert_left_out(path, str(path), *words)


def test_an_archive_episode_without_rows_is_named(tmp_path: Path) -> None:
    path = _archive(
        tmp_path / "data.npz",
        episode_ends=lambda ends: ends[[0, 0, 1, 2]],
        task_index=lambda tasks: tasks[[0, 0, 1, 2]],
    )
    with pytest.raises(InputError, match=r"data\.npz: episode 1 has no rows; it needs at least one control step"):
        read_demonstrations(path)
    found = read_datasets([path], Selection(skip_bad=True))
    assert [bad.number for bad in found.left_out] == [1]
    assert found.demonstrations.fingerprint() == sample().fingerprint()


def _posed(quaternion: tuple[float, ...]) -> Demonstrations:
    states = np.zeros((4, 14), dtype=np.float32)
    states[:, 3:7] = (0.0, 0.0, 0.0, 1.0)
    good = Episode(states, np.zeros((4, 14), dtype=np.float32), np.arange(4) / 50)
    spoilt = states.copy()
    spoilt[2, 3:7] = quaternion
    return Demonstrations((good, replace(good, states=spoilt), good), 50.0)


@pytest.mark.parametrize("name", ["data", "data.npz"])
def test_a_quaternion_of_norm_zero_is_named(tmp_path: Path, name: str) -> None:
    pose = StatePose((0, 1, 2), (3, 4, 5, 6), "quaternion_xyzw")
    undriven = tuple(replace(group, drives=()) for group in ALOHA.actions)
    robot = replace(ALOHA, actions=undriven, arms=(Arm("only", pose),))
    write_demonstrations(_posed((0.0, 0.0, 0.0, 0.0)), tmp_path / name)
    message = r"arm 'only' \(column '.*state.*'.*\) has norm zero in episode 1, row 2; it must have norm one"
    with pytest.raises(InputError, match=message):
        read_datasets([tmp_path / name], robot=robot)
    found = read_datasets([tmp_path / name], Selection(skip_bad=True), robot)
    assert ([bad.number for bad in found.left_out], len(found.demonstrations)) == ([1], 2)
    write_demonstrations(_posed((0.0, 0.0, 0.6, 0.8)), tmp_path / name, overwrite=True)
    assert len(read_datasets([tmp_path / name], robot=robot).demonstrations) == 3


@pytest.mark.parametrize(
    ("change", "what", "values"),
    [
        ({"robot_name": "panda"}, "robot", "aloha and panda"),
        ({"control_hz": 20.0}, "control frequency (Hz)", "50.0 and 20.0"),
    ],
)
def test_data_sets_that_differ_are_refused(tmp_path: Path, change: dict[str, Any], what: str, values: str) -> None:
    write_demonstrations(replace(sample(), **change), tmp_path / "other.npz")
    with pytest.raises(InputError, match=re.escape(f"{V21} and {tmp_path / 'other.npz'} differ in {what}: {values}")):
        read_datasets([V21, tmp_path / "other.npz"])


def test_a_data_set_without_a_name_does_not_hide_that_others_differ(tmp_path: Path) -> None:
    for name in ("", "panda"):
        write_demonstrations(replace(sample(), robot_name=name), tmp_path / f"{name or 'any'}.npz")
    with pytest.raises(InputError, match=rf"{V21} and {tmp_path / 'panda'}\.npz differ in robot: aloha and panda"):
        read_datasets([V21, tmp_path / "any.npz", tmp_path / "panda.npz"])


def test_data_sets_of_other_dimensions_are_refused(tmp_path: Path) -> None:
    wider = [replace(e, states=np.tile(e.states, 2), actions=np.tile(e.actions, 2)) for e in sample()]
    write_demonstrations(replace(sample(), episodes=tuple(wider)), tmp_path / "other.npz")
    for selection, message in (
        (Selection(), "state dimensions: 3 and 6"),
        (Selection(state=("observation.force",)), "action dimensions: 2 and 4"),
    ):
        with pytest.raises(InputError, match=f"{tmp_path / 'other.npz'} differ in {message}"):
            read_datasets([V21, tmp_path / "other.npz"], selection)
    with pytest.raises(InputError, match=r"lerobot_v21 has 3 state and 2 action dimensions, but robot 'aloha' has 14"):
        read_datasets([V21], robot=ALOHA)
