"""LeRobot v2.1 folders; the one read here was recorded by LeRobot 0.3.3 (see ``lerobot_sample.py``)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lerobot_sample import sample
from sample_demonstrations import assert_same
from speedup_patch.datasets import open_source, read_datasets, read_demonstrations
from speedup_patch.errors import InputError

RECORDED = Path(__file__).parent / "lerobot_v21"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "data"))


def _edit_info(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    info = json.loads((folder / "meta/info.json").read_text())
    edit(info)
    (folder / "meta/info.json").write_text(json.dumps(info))


def test_what_lerobot_recorded_is_read() -> None:
    found = read_datasets([RECORDED])
    assert_same(found.demonstrations, sample())
    assert (found.state_names, found.action_names) == (("a", "b", "c"), ("x", "y"))
    assert [(e.number, e.length, e.task) for e in open_source(RECORDED).entries()] == [
        (number, len(episode), episode.task) for number, episode in enumerate(sample())
    ]


def test_version_2_0_is_read_too(folder: Path) -> None:
    _edit_info(folder, lambda info: info.update(codebase_version="v2.0"))
    (folder / "meta/episodes_stats.jsonl").unlink()
    assert_same(read_demonstrations(folder), sample())


def test_episodes_are_found_in_later_chunks(folder: Path) -> None:
    _edit_info(folder, lambda info: info.update(chunks_size=2))
    (folder / "data/chunk-001").mkdir()
    shutil.move(folder / "data/chunk-000/episode_000002.parquet", folder / "data/chunk-001")
    assert_same(read_demonstrations(folder), sample())


def test_columns_of_the_openpi_data_sets_are_recognised(folder: Path) -> None:
    import pyarrow.parquet as pq

    def rename(info: dict[str, Any]) -> None:
        features = info["features"]
        features["state"], features["actions"] = features.pop("observation.state"), features.pop("action")

    _edit_info(folder, rename)
    for file in folder.glob("data/*/*.parquet"):
        table = pq.read_table(file)
        names = {"observation.state": "state", "action": "actions"}
        pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), file)
    assert read_demonstrations(folder).fingerprint() == sample().fingerprint()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("meta/episodes.jsonl", '"length": 9', '"length": "nine"', "line 2: length must be a whole number, not 'nine'"),
        ("meta/episodes.jsonl", '"length": 9}', '"length": 9', "line 2 is not JSON"),
        ("meta/episodes.jsonl", '{"episode_index": 1', '[1]\n{"episode_index": 1', "line 2 must hold a JSON object"),
        ("meta/episodes.jsonl", '"episode_index": 1', '"episode_index": 0', "lists 1 episodes more than once"),
        ("meta/episodes.jsonl", '"length": 9', '"length": 8', "total_frames is 22, but meta/episodes.jsonl lists 21"),
        ("meta/tasks.jsonl", '"task_index": 1', '"task_index": 4', "is 1 in episode 1, which meta/tasks.jsonl"),
        ("meta/info.json", '"total_episodes": 3', '"total_episodes": 4', "says total_episodes is 4"),
        ("meta/info.json", '"chunks_size": 1000', '"chunks_size": 0', "chunks_size must be a whole number above 0"),
        ("meta/info.json", "{episode_chunk:03d}", "{chunk:03d}", "data_path must look like"),
        ("meta/info.json", '"fps": 50', '"fps": -50', "fps must be a positive number, not -50"),
    ],
)
def test_wrong_metadata_is_named(folder: Path, file: str, old: str, new: str, message: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_demonstrations(folder)


@pytest.mark.parametrize("file", ["meta/info.json", "meta/episodes.jsonl", "meta/tasks.jsonl"])
def test_missing_metadata_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(InputError, match=r"meta/(info\.json|episodes\.jsonl|tasks\.jsonl)"):
        read_demonstrations(folder)
    (folder / file).write_bytes(b"\xff\xfe{")
    with pytest.raises(InputError, match=file):
        read_demonstrations(folder)
