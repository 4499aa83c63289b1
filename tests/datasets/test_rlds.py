"""RLDS folders: what tensorflow-datasets wrote into the fixture is found, and what is wrong is named."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlds.known_episodes import DROID, LIBERO, KnownEpisode, droid_episodes, libero_episodes
from speedup_patch.datasets import Selection, read_datasets
from speedup_patch.datasets.rlds import open_rlds
from speedup_patch.datasets.source import BadEpisode, RawEpisode, Source
from speedup_patch.errors import InputError

FIXTURE = Path(__file__).parents[1] / "fixtures" / "rlds"
SHARD = "1.0.0/libero_tiny-train.tfrecord-0000{}-of-00002"
STATE, ACTION = "observation/state", "action"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the LIBERO fixture to damage."""
    return Path(shutil.copytree(FIXTURE / LIBERO, tmp_path / LIBERO))


def _read(path: Path, columns: list[str] | None = None) -> list[RawEpisode | BadEpisode]:
    source = open_rlds(path)
    return list(source.read([entry.number for entry in source.entries()], columns or [STATE, ACTION]))


@pytest.mark.parametrize(("name", "known"), [(LIBERO, libero_episodes()), (DROID, droid_episodes())])
def test_the_fixture_holds_the_known_episodes(name: str, known: list[KnownEpisode]) -> None:
    source = open_rlds(FIXTURE / name)
    assert isinstance(source, Source)
    assert {column: found.width for column, found in source.columns.items()} == {
        column: table.shape[1] for column, table in known[0].columns.items()
    }
    by_length = {len(episode): episode for episode in known}  # the library shuffles what it writes
    for number, found in enumerate(_read(FIXTURE / name / "1.0.0", list(source.columns))):
        assert isinstance(found, RawEpisode)
        expected = by_length.pop(len(found.columns["action"]))
        assert (found.number, found.task) == (number, expected.task)
        for column, table in expected.columns.items():
            np.testing.assert_array_equal(found.columns[column], table.astype(np.float32))
    assert not by_length


def test_defaults_follow_the_layout() -> None:
    libero, droid = open_rlds(FIXTURE / LIBERO), open_rlds(FIXTURE / DROID)
    assert (libero.defaults.state, libero.defaults.action) == ((STATE,), (ACTION,))
    assert (libero.robot_name, droid.robot_name, libero.control_hz) == ("panda_libero", "droid", None)
    assert droid.defaults.state == ("observation/joint_position", "observation/gripper_position")
    assert droid.defaults.action == ("action_dict/joint_velocity", "action_dict/gripper_position")


def test_demonstrations_need_the_frequency_from_the_user(folder: Path) -> None:
    with pytest.raises(InputError, match="does not say its control frequency; give it with --hz"):
        read_datasets([folder])
    found = read_datasets([folder], Selection(control_hz=20.0, tasks=("pick*",))).demonstrations
    assert (len(found), found.state_size, found.action_size) == (2, 8, 7)
    assert {episode.task for episode in found} == {"pick up the bowl"}


def test_episodes_come_in_the_order_asked_for(folder: Path) -> None:
    lengths = [len(episode.columns[ACTION]) for episode in _read(folder) if isinstance(episode, RawEpisode)]
    found = list(open_rlds(folder).read([3, 0, 2, 1, 1], [ACTION]))
    assert [episode.number for episode in found] == [3, 0, 2, 1, 1]
    assert [len(episode.columns[ACTION]) for episode in found if isinstance(episode, RawEpisode)] == [
        lengths[number] for number in (3, 0, 2, 1, 1)
    ]


def _change_shard(folder: Path, change: Callable[[bytearray], None]) -> Path:
    file = folder / SHARD.format(0)
    content = bytearray(file.read_bytes())
    change(content)
    file.write_bytes(content)
    return file


def _problems(folder: Path) -> list[str]:
    return [episode.problem if isinstance(episode, BadEpisode) else "" for episode in _read(folder)]


def test_a_damaged_record_is_left_out_alone(folder: Path) -> None:
    def flip(content: bytearray) -> None:
        content[100] ^= 1

    file = _change_shard(folder, flip)
    assert _problems(folder) == [
        f"episode 0: {file}: record 0 is damaged: its checksum does not fit its content",
        "",
        "",
        "",
    ]


def test_damaged_framing_takes_the_rest_of_its_shard(folder: Path) -> None:
    def flip(content: bytearray) -> None:
        content[0] ^= 1

    file = _change_shard(folder, flip)
    lost = f"{file}: record 0 and all after it are lost: its length is damaged"
    assert _problems(folder) == [f"episode 0: {lost}", f"episode 1: {lost}", "", ""]


@pytest.mark.parametrize("cut", [1, 4, 1000])
def test_a_truncated_shard_keeps_its_whole_records(folder: Path, cut: int) -> None:
    def truncate(content: bytearray) -> None:
        del content[-cut:]

    file = _change_shard(folder, truncate)
    assert _problems(folder) == ["", f"episode 1: {file} is cut short: it ends inside record 1", "", ""]


def test_a_missing_or_short_shard_is_named(folder: Path) -> None:
    (folder / SHARD.format(1)).unlink()
    (folder / SHARD.format(0)).write_bytes(b"")
    problems = _problems(folder)
    assert [f"{folder / SHARD.format(0)} ends after 0 records" in problem for problem in problems[:2]] == [True, True]
    assert all(f"{folder / SHARD.format(1)} cannot be opened: No such file" in problem for problem in problems[2:])


def _edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def _step(features: dict[str, Any]) -> dict[str, Any]:
    return features["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]


def _set_width(features: dict[str, Any]) -> None:
    _step(features)["action"]["tensor"]["shape"]["dimensions"] = ["6"]


def _rename(features: dict[str, Any]) -> None:
    _step(features)["velocity"] = _step(features)["action"]


def _set_encoding(features: dict[str, Any]) -> None:
    _step(features)["action"]["tensor"]["encoding"] = "zlib"


@pytest.mark.parametrize(
    ("change", "column", "message"),
    [
        (_set_width, "action", "column 'steps/action' holds 35 numbers, which are not rows of 6"),
        (_rename, "velocity", "lacks the column 'steps/velocity'"),
        (_set_encoding, "action", "column 'steps/action' must hold float32, as features.json says"),
    ],
)
def test_records_that_are_not_as_described_are_named(
    folder: Path, change: Callable[[dict[str, Any]], None], column: str, message: str
) -> None:
    _edit(folder / "1.0.0/features.json", change)
    first = _read(folder, [column])[0]
    assert isinstance(first, BadEpisode)
    assert f"episode 0: {folder / SHARD.format(0)}: record 0" in first.problem
    assert message in first.problem


def test_pictures_alone_give_no_columns(folder: Path) -> None:
    def keep_pictures(features: dict[str, Any]) -> None:
        step = _step(features)
        observation = step["observation"]["featuresDict"]["features"]
        for group in (step, observation):
            for name in [name for name in group if "image" not in name and name != "observation"]:
                del group[name]

    _edit(folder / "1.0.0/features.json", keep_pictures)
    assert not open_rlds(folder).columns
    with pytest.raises(InputError, match="has no column of numbers, only pictures"):
        read_datasets([folder], Selection(control_hz=20.0))


def test_shapes_that_are_no_table_are_not_columns(folder: Path) -> None:
    def change(features: dict[str, Any]) -> None:
        step = _step(features)
        step["action"]["tensor"]["shape"]["dimensions"] = ["7", "2"]
        step["reward"]["tensor"]["shape"]["dimensions"] = ["-1"]
        step["discount"]["tensor"]["dtype"] = "string"

    _edit(folder / "1.0.0/features.json", change)
    columns = open_rlds(folder).columns
    assert STATE in columns
    assert not {"action", "reward", "discount", "observation/touches", "observation/image"} & set(columns)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("dataset_info.json", lambda info: info.update(fileFormat="array_record"), "its file format is 'array_record'"),
        ("dataset_info.json", lambda info: info.update(fileFormat="riegeli"), "its file format is 'riegeli'"),
        ("dataset_info.json", lambda info: info.pop("splits"), "'splits' must list the splits"),
        ("dataset_info.json", lambda info: info["splits"][0].update(shardLengths=["-1"]), "'shardLengths' must count"),
        ("dataset_info.json", lambda info: info["splits"][0].update(shardLengths=["999999999"]), "'shardLengths' must"),
        (
            "dataset_info.json",
            lambda info: info["splits"][0].update(filepathTemplate="../{DATASET}"),
            "must be a file in its folder, not '../libero_tiny'",
        ),
        (
            "dataset_info.json",
            lambda info: info.update(name="\ud800"),
            "must be a file in its folder, not '\\ud800-train",
        ),
        ("features.json", lambda file: file.clear(), "must hold featuresDict"),
        (
            "features.json",
            lambda features: features["featuresDict"]["features"].pop("steps"),
            "needs the feature 'steps'",
        ),
        (
            "features.json",
            lambda file: file["featuresDict"]["features"].update(steps={"tensor": {}}),
            "'steps' must be a sequence",
        ),
    ],
)
def test_a_description_that_cannot_be_used_is_named(
    folder: Path, file: str, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    _edit(folder / "1.0.0" / file, change)
    with pytest.raises(InputError, match=file.replace(".", r"\.")) as caught:
        open_rlds(folder)
    assert message in str(caught.value)


def test_a_folder_of_several_versions_asks_for_one(folder: Path) -> None:
    shutil.copytree(folder / "1.0.0", folder / "1.1.0")
    with pytest.raises(InputError, match=r"name the one version folder to read, found: 1\.0\.0, 1\.1\.0"):
        open_rlds(folder)
    shutil.rmtree(folder / "1.0.0")
    assert len(open_rlds(folder.parent).entries()) == 4
    shutil.rmtree(folder / "1.1.0")
    with pytest.raises(InputError, match="found: none"):
        open_rlds(folder)


def test_without_its_library_the_error_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(InputError, match=r"pip install 'speedup-patch\[rlds\]'"):
        open_rlds(folder)
