"""Columns, episodes and tasks are chosen by name; what is not there is answered with what is."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lerobot_sample import EXTRA, FORCE, sample
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets import Selection, open_source, read_datasets, write_demonstrations
from speedup_patch.errors import InputError
from speedup_patch.robots import ALOHA

V21 = Path(__file__).parent / "lerobot_v21"


@pytest.fixture(params=["v3", "v21", "npz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The sample in every format that is ours to write, and v2.1."""
    if request.param == "v21":
        return V21
    target = tmp_path / {"v3": "data", "npz": "data.npz"}[request.param]
    write_demonstrations(sample(), target)
    return target


def _names(path: Path) -> tuple[str, str]:
    return ("states", "actions") if path.suffix == ".npz" else ("observation.state", "action")


def test_everything_is_read_when_nothing_is_said(path: Path) -> None:
    found = read_datasets([path])
    assert found.demonstrations.fingerprint() == sample().fingerprint()
    assert not found.left_out
    assert set(found.demonstrations.episodes[0].extras) == {EXTRA, FORCE}


def test_columns_are_put_side_by_side(path: Path) -> None:
    state, action = _names(path)
    selection = Selection(state=(f"{state}[1:]", FORCE, f"{state}[0]"), action=(EXTRA, f"{action}[:1]"))
    for ours, theirs in zip(read_datasets([path], selection).demonstrations, sample(), strict=True):
        expected = np.concatenate([theirs.states[:, 1:], theirs.extras[FORCE], theirs.states[:, :1]], axis=1)
        np.testing.assert_array_equal(ours.states, expected)
        expected = np.concatenate([theirs.extras[EXTRA], theirs.actions[:, :1]], axis=1)
        np.testing.assert_array_equal(ours.actions, expected)
        assert not ours.extras


def test_names_follow_the_columns() -> None:
    found = read_datasets([V21], Selection(state=("observation.state[1:]", EXTRA), action=(EXTRA,)))
    assert found.state_names == ("b", "c", f"{EXTRA}[0]", f"{EXTRA}[1]")
    assert found.action_names == ()


@pytest.mark.parametrize(
    ("episodes", "chosen"),
    [
        ("", [0, 1, 2]),
        ("1", [1]),
        ("0:2", [0, 1]),
        ("1:", [1, 2]),
        (":1,2", [0, 2]),
        ("0:9", [0, 1, 2]),
        (" 2 , 0", [0, 2]),
    ],
)
def test_episodes_are_chosen_by_number(path: Path, episodes: str, chosen: list[int]) -> None:
    found = read_datasets([path], Selection(episodes=episodes)).demonstrations
    assert found.fingerprint() == sample().select(chosen).fingerprint()


@pytest.mark.parametrize(
    ("tasks", "chosen"),
    [(("pick the cube",), [0, 2]), (("pick*",), [0, 2]), (("",), [1]), (("*",), [0, 1, 2]), (("", "p?ck*"), [0, 1, 2])],
)
def test_episodes_are_chosen_by_task(path: Path, tasks: tuple[str, ...], chosen: list[int]) -> None:
    found = read_datasets([path], Selection(tasks=tasks)).demonstrations
    assert found.fingerprint() == sample().select(chosen).fingerprint()


def test_both_must_hold(path: Path) -> None:
    found = read_datasets([path], Selection(tasks=("pick*",), episodes="1:")).demonstrations
    assert found.fingerprint() == sample().select([2]).fingerprint()


def test_what_is_not_there_is_answered_with_what_is(path: Path) -> None:
    state, _ = _names(path)
    for selection, message in (
        (Selection(state=("observation.forces",)), f"no column 'observation.forces' for the state; it has '{FORCE}', "),
        (Selection(action=("acton",)), "has no column 'acton' for the action; it has 'action"),
        (Selection(state=(f"{state}[2:4]",)), rf"\[2:4\] is not a part of '{state}', which has 3 dimensions; \[0:3\]"),
        (Selection(state=(f"{state}[3]",)), "which has 3 dimensions"),
        (Selection(episodes="7"), "has no episode 7; its episodes are 0:3"),
        (Selection(episodes="0,5:9"), "has no episode 5:9; its episodes are 0:3"),
        (Selection(tasks=("pick the cup",)), "no episode of task 'pick the cup'; its tasks are 'pick the cube', ''"),
        (Selection(tasks=("pick*",), episodes="1"), "has no episode of task 'pick"),
    ):
        with pytest.raises(InputError, match=message):
            read_datasets([path], selection)


@pytest.mark.parametrize("episodes", ["one", "1-3", "-1", "3:3", "5:2", "1,,2", "0:1:2"])
def test_ranges_that_make_no_sense_are_refused(episodes: str) -> None:
    with pytest.raises(InputError, match=r"--episodes"):
        Selection(episodes=episodes)


@given(st.text(alphabet="0123456789:, -x", max_size=12))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    try:
        chosen = Selection(episodes=text).choose_episodes(open_source(V21))
    except InputError:
        return
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= {0, 1, 2}


def _without_frequency(path: Path) -> Path:
    np.savez(path, states=np.zeros((3, 14)), actions=np.zeros((3, 14)), episode_ends=[3])
    return path


def test_the_frequency_comes_from_the_data_the_user_or_the_robot(tmp_path: Path) -> None:
    silent = _without_frequency(tmp_path / "silent.npz")
    with pytest.raises(InputError, match=r"silent\.npz does not say its control frequency; give it with --hz"):
        read_datasets([silent])
    assert read_datasets([silent], robot=ALOHA).demonstrations.control_hz == ALOHA.control_hz
    found = read_datasets([silent], Selection(control_hz=25.0), ALOHA).demonstrations
    assert found.control_hz == 25.0
    np.testing.assert_allclose(found.episodes[0].timestamps, [0.0, 0.04, 0.08])
    for hz in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="--hz must be a positive number"):
            Selection(control_hz=hz)


def test_several_data_sets_are_read_one_after_the_other(path: Path, tmp_path: Path) -> None:
    """An empty robot name agrees with anything, and the selection applies to each."""
    nameless = Demonstrations(sample().episodes[:2], 50.0)
    write_demonstrations(nameless, tmp_path / "nameless.npz")
    found = read_datasets([tmp_path / "nameless.npz", path]).demonstrations
    assert found.fingerprint() == Demonstrations((*nameless.episodes, *sample().episodes), 50.0).fingerprint()
    assert found.robot_name == "aloha"
    picked = read_datasets([path, path], Selection(tasks=("pick*",))).demonstrations
    assert [episode.task for episode in picked] == ["pick the cube"] * 4


def test_no_data_set_is_refused() -> None:
    with pytest.raises(InputError, match="no data set was named"):
        read_datasets([])


def test_a_task_that_only_the_rows_tell_is_found_too(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_demonstrations(sample(), tmp_path / "data")
    meta = tmp_path / "data/meta/episodes/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(meta).drop_columns(["tasks"]), meta)
    found = read_datasets([tmp_path / "data"], Selection(tasks=("pick*",))).demonstrations
    assert found.fingerprint() == sample().select([0, 2]).fingerprint()
    with pytest.raises(InputError, match="its tasks are 'pick the cube', ''"):
        read_datasets([tmp_path / "data"], Selection(tasks=("pick the cup",)))


def test_uncompressed_archives_are_mapped_not_read(tmp_path: Path) -> None:
    episode = Episode(np.ones((5, 2), np.float32), np.ones((5, 1), np.float32), np.arange(5) / 20)
    arrays = {"states": episode.states, "actions": episode.actions, "episode_ends": [2, 5], "control_hz": 20.0}
    np.savez(tmp_path / "plain.npz", **arrays)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    for name, mapped in (("plain.npz", True), ("packed.npz", False)):
        first = read_datasets([tmp_path / name]).demonstrations.episodes[0]
        base = first.states
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert isinstance(base, np.memmap) is mapped
        np.testing.assert_array_equal(first.states, np.ones((2, 2)))
