"""LeRobot v3.0 folders: layouts found in the wild, and an error for everything that is wrong."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sample_demonstrations import assert_same
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets import read_datasets, read_demonstrations
from speedup_patch.datasets.lerobot_v3 import LeRobotV3
from speedup_patch.datasets.lerobot_v3_writer import write_lerobot_v3
from speedup_patch.datasets.source import RawEpisode
from speedup_patch.errors import InputError

INFO, DATA = "meta/info.json", "data/chunk-000/file-000.parquet"
EPISODES, TASKS = "meta/episodes/chunk-000/file-000.parquet", "meta/tasks.parquet"
LENGTHS = [4, 6, 5]


def _written(lengths: list[int] = LENGTHS) -> Demonstrations:
    rng = np.random.default_rng(0)
    draw = lambda length, width: rng.normal(size=(length, width)).astype(np.float32)  # noqa: E731
    episodes = (
        Episode(
            draw(length, 3),
            draw(length, 2),
            np.arange(length) / 20,
            ["pick", "place"][number % 2],
            {"observation.environment_state": draw(length, 4), "observation.force": draw(length, 1)},
        )
        for number, length in enumerate(lengths)
    )
    return Demonstrations(tuple(episodes), 20.0, "panda")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_lerobot_v3(_written(), tmp_path / "data")
    return tmp_path / "data"


def _edit_info(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    info = json.loads((folder / INFO).read_text())
    edit(info)
    (folder / INFO).write_text(json.dumps(info))


def _replace_column(folder: Path, file: str, name: str, values: Any) -> None:
    table = pq.read_table(folder / file)
    pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(values)), folder / file)


def _refused(folder: Path, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_demonstrations(folder)


@pytest.mark.parametrize(("megabytes", "files"), [(100.0, 1), (6 * 76 / 2**20, 3), (10 * 76 / 2**20, 2)])
def test_episodes_fill_one_file_and_then_the_next(tmp_path: Path, megabytes: float, files: int) -> None:
    write_lerobot_v3(_written(), tmp_path / "data", file_megabytes=megabytes)
    assert len(list((tmp_path / "data/data").glob("*/*.parquet"))) == files
    assert_same(read_demonstrations(tmp_path / "data"), _written())


def test_files_go_on_in_the_next_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speedup_patch.datasets.lerobot_v3_writer.FILES_PER_CHUNK", 2)
    write_lerobot_v3(_written([2] * 5), tmp_path / "data", file_megabytes=1e-9)
    found = sorted(
        path.relative_to(tmp_path / "data").as_posix() for path in (tmp_path / "data/data").glob("*/*.parquet")
    )
    assert [name[5:-8] for name in found] == [
        f"chunk-00{i}/file-00{j}" for i, j in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    ]
    assert_same(read_demonstrations(tmp_path / "data"), _written([2] * 5))


def test_lists_of_any_kind_and_numbers_of_any_kind_are_read(folder: Path) -> None:
    actions = np.concatenate([episode.actions for episode in _written()])
    for kind in (pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)):
        _replace_column(folder, DATA, "action", pa.array(actions.tolist(), kind))
        assert_same(read_demonstrations(folder), _written())


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("group", [1, 3, 4, 100])
def test_rows_are_put_together_however_they_are_grouped(
    folder: Path, group: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speedup_patch.datasets.parquet_episodes.ROWS_AT_ONCE", at_once)
    pq.write_table(pq.read_table(folder / DATA), folder / DATA, row_group_size=group)
    assert_same(read_demonstrations(folder), _written())
    for chosen in ([0], [1], [2], [0, 2], [2, 0]):
        found = list(LeRobotV3(folder).read(chosen, ["action"]))
        assert [raw.number for raw in found] == chosen
        for raw in found:
            assert isinstance(raw, RawEpisode)
            np.testing.assert_array_equal(raw.columns["action"], _written().episodes[raw.number].actions)


def test_episode_metadata_over_several_files_is_read(folder: Path) -> None:
    table = pq.read_table(folder / EPISODES)
    pq.write_table(table.slice(2), folder / EPISODES)
    pq.write_table(table.slice(0, 2), folder / "meta/episodes/chunk-000/file-001.parquet")
    assert_same(read_demonstrations(folder), _written())


def test_pictures_videos_tables_and_texts_are_passed_over(folder: Path) -> None:
    def add(info: dict[str, Any]) -> None:
        info["features"]["observation.images.top"] = {"dtype": "video", "shape": [480, 640, 3], "names": None}
        info["features"]["observation.image"] = {"dtype": "image", "shape": [3, 4, 4], "names": None}
        info["features"]["observation.grid"] = {"dtype": "float32", "shape": [2, 2], "names": None}
        info["features"]["observation.text"] = {"dtype": "string", "shape": [1], "names": None}
        info["features"]["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}

    _edit_info(folder, add)
    table = pq.read_table(folder / DATA)
    pictures = pa.array([{"bytes": b"png", "path": ""}] * len(table))
    pq.write_table(table.append_column("observation.image", pictures), folder / DATA)
    assert_same(read_demonstrations(folder), _written())


def test_tasks_are_found_under_any_column_name(folder: Path) -> None:
    pq.write_table(pa.table({"task": ["place", "pick"], "task_index": [1, 0]}), folder / TASKS)
    assert_same(read_demonstrations(folder), _written())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x", "y"], ("x", "y")),
        ({"motors": ["x", "y"]}, ("x", "y")),
        ({"x": 0, "y": 1}, ("x", "y")),
        (None, ()),
        (["only one"], ()),
    ],
)
def test_names_are_read_however_they_are_written(folder: Path, names: object, expected: tuple[str, ...]) -> None:
    _edit_info(folder, lambda info: info["features"]["action"].update(names=names))
    found = read_datasets([folder])
    assert (found.state_names, found.action_names) == (("state_0", "state_1", "state_2"), expected)


def test_the_statistics_are_those_of_the_data(folder: Path) -> None:
    stats = json.loads((folder / "meta/stats.json").read_text())
    states = np.concatenate([episode.states for episode in _written()]).astype(np.float64)
    np.testing.assert_allclose(stats["observation.state"]["mean"], states.mean(axis=0))
    np.testing.assert_allclose(stats["observation.state"]["std"], states.std(axis=0))
    assert stats["action"]["count"] == [sum(LENGTHS)]
    first = pq.read_table(folder / EPISODES).to_pylist()[0]
    np.testing.assert_allclose(first["stats/observation.state/max"], _written().episodes[0].states.max(axis=0))


def test_a_further_column_must_be_an_observation(tmp_path: Path) -> None:
    episode = _written().episodes[0]
    odd = Episode(episode.states, episode.actions, episode.timestamps, extras={"force": episode.states})
    with pytest.raises(InputError, match=r"'force' must be named executed_action or observation\.<something>"):
        write_lerobot_v3(Demonstrations((odd,), 20.0), tmp_path / "data")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda info: info.pop("codebase_version"), "codebase_version must be v3.0, v2.1 or v2.0, not None"),
        (lambda info: info.update(codebase_version="v4.0"), "codebase_version must be v3.0, v2.1 or v2.0, not v4.0"),
        (lambda info: info.update(fps=0), "fps must be a positive number, not 0"),
        (lambda info: info.update(fps="20"), "fps must be a positive number, not '20'"),
        (lambda info: info.update(features=[]), "features must be an object"),
        (lambda info: info["features"].pop("action"), "no column that is clearly the action; name it with --action"),
        (
            lambda info: info["features"]["observation.state"].update(dtype="image"),
            "has no column that is clearly the state; name it with --state: its columns of numbers are 'action' (2)",
        ),
        (lambda info: info.update(total_episodes=9), "says total_episodes is 9, but meta/episodes lists 3"),
        (lambda info: info.update(total_frames=9), "says total_frames is 9, but meta/episodes lists 15"),
        (lambda info: info.update(data_path="data/{wrong}.parquet"), "data_path must look like"),
        (lambda info: info.update(data_path="data/all.parquet"), "data/all.parquet does not exist"),
        (lambda info: info["features"]["action"].update(shape=[5]), "'action' has 2 values in episode 0, row 0, but"),
    ],
)
def test_a_wrong_info_is_refused(folder: Path, edit: Callable[[dict[str, Any]], object], message: str) -> None:
    _edit_info(folder, edit)
    _refused(folder, message)


@pytest.mark.parametrize("file", [INFO, DATA, EPISODES, TASKS])
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "other"])
def test_a_damaged_file_is_named(folder: Path, file: str, damage: str) -> None:
    content = (folder / file).read_bytes()
    (folder / file).unlink()
    if damage != "missing":
        (folder / file).write_bytes({"empty": b"", "short": content[: len(content) // 2], "other": b"x" * 500}[damage])
    _refused(folder, "meta/episodes" if (file, damage) == (EPISODES, "missing") else file)


@pytest.mark.parametrize(
    "name",
    ["observation.state", "action", "observation.force", "timestamp", "frame_index", "episode_index", "task_index"],
)
def test_a_missing_column_is_named(folder: Path, name: str) -> None:
    pq.write_table(pq.read_table(folder / DATA).drop_columns([name]), folder / DATA)
    _refused(folder, f"{DATA} lacks the column {name!r}; its columns are ")


@pytest.mark.parametrize("value", [np.nan, np.inf, None, 1e300])
def test_a_value_that_is_not_finite_is_located(folder: Path, value: float | None) -> None:
    states = np.concatenate([episode.states for episode in _written()]).tolist()
    states[LENGTHS[0] + 2][1] = value
    _replace_column(folder, DATA, "observation.state", pa.array(states, pa.list_(pa.float64(), 3)))
    shown = "inf" if value in (np.inf, 1e300) else "nan"
    _refused(folder, f"{DATA}: column 'observation.state' holds {shown} in episode 1, row 2, dimension 1")


@pytest.mark.parametrize("row", [[0.0], [], None])
def test_ragged_rows_are_located(folder: Path, row: list[float] | None) -> None:
    actions = [*np.zeros((sum(LENGTHS) - 1, 2)).tolist(), row]
    _replace_column(folder, DATA, "action", pa.array(actions, pa.list_(pa.float32())))
    _refused(
        folder, f"{DATA}: column 'action' has {len(row or [])} values in episode 2, row 4, but meta/info.json says 2"
    )


def test_columns_that_hold_no_numbers_are_refused(folder: Path) -> None:
    _replace_column(folder, DATA, "action", [["a", "b"]] * sum(LENGTHS))
    _refused(folder, "column 'action' must hold numbers, not string")
    _replace_column(folder, DATA, "action", ["a"] * sum(LENGTHS))
    _refused(folder, "column 'action' must hold lists of 2 numbers, not string")


def test_a_counter_must_hold_whole_numbers(folder: Path) -> None:
    _replace_column(folder, DATA, "frame_index", [0.5] * sum(LENGTHS))
    _refused(folder, "column 'frame_index' must hold one whole number per row")


def test_frames_out_of_order_are_located(folder: Path) -> None:
    frames = np.concatenate([np.arange(length) for length in LENGTHS])
    frames[[5, 6]] = frames[[6, 5]]
    _replace_column(folder, DATA, "frame_index", frames)
    _refused(folder, "column 'frame_index' must count 0, 1, 2, ... in every episode, but it is 2 in episode 1, row 1")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0] * 5 + [1] * 5 + [2] * 5, f"{DATA} has 5 rows of episode 0, but meta/episodes says 4"),
        ([0] * 4 + [1] * 6 + [2] * 5 + [7], f"{DATA} has rows of episode 7, but meta/episodes does not place it there"),
        (
            [0] * 2 + [1] * 6 + [0] * 2 + [2] * 5,
            "column 'episode_index' must keep the rows of an episode together, but those of episode 0 lie in 2 places",
        ),
    ],
)
def test_rows_of_the_wrong_episode_are_refused(folder: Path, numbers: list[int], message: str) -> None:
    table = pq.read_table(folder / DATA)
    table = table.take(np.minimum(np.arange(len(numbers)), len(table) - 1))
    pq.write_table(table, folder / DATA)
    _replace_column(folder, DATA, "episode_index", numbers)
    _refused(folder, message)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("episode_index", [0, 1, 1], "lists episode 1 more than once"),
        ("length", [4, 6, 0], "says total_frames is 15, but meta/episodes lists 10"),
        ("length", [4, 5, 6], "has 6 rows of episode 1, but meta/episodes says 5"),
        ("data/file_index", [0, 0, 5], "has rows of episode 2, but meta/episodes does not place it there"),
    ],
)
def test_wrong_episode_metadata_is_refused(folder: Path, column: str, values: list[int], message: str) -> None:
    _replace_column(folder, EPISODES, column, values)
    _refused(folder, message)


def test_no_episodes_are_refused(folder: Path) -> None:
    pq.write_table(pq.read_table(folder / EPISODES).slice(0, 0), folder / EPISODES)
    _refused(folder, "lists no episodes")


def test_a_task_without_a_text_is_refused(folder: Path) -> None:
    pq.write_table(pq.read_table(folder / TASKS).slice(0, 1), folder / TASKS)
    _refused(folder, "column 'task_index' is 1 in episode 1, which meta/tasks.parquet does not list")
    pq.write_table(pa.table({"task_index": [0, 1]}), folder / TASKS)
    _refused(folder, "meta/tasks.parquet has no column of texts")
