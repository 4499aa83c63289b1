"""robomimic and LIBERO files: what their writers lay down is found, and what is wrong is named."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from sample_hdf5 import LENGTHS, LIBERO_WIDTHS, ROBOMIMIC_WIDTHS, write_robomimic
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets import Selection, read_datasets, read_demonstrations, write_demonstrations
from speedup_patch.datasets.hdf5 import open_hdf5
from speedup_patch.datasets.hdf5_layout import open_layout
from speedup_patch.datasets.source import BadEpisode, RawEpisode, Source
from speedup_patch.errors import InputError

DEMO = "data/demo_1"
STATE = ["obs/ee_states", "obs/gripper_states"]


def _read(source: Source, columns: list[str] | None = None) -> list[RawEpisode | BadEpisode]:
    chosen = [*source.defaults.state, *source.defaults.action] if columns is None else columns
    return list(source.read([entry.number for entry in source.entries()], chosen))


def test_a_libero_folder_is_read_file_by_file_in_natural_order(tmp_path: Path) -> None:
    written = [
        columns
        for name in ("task_2_demo", "task_10_demo")
        for columns in write_robomimic(tmp_path / f"{name}.hdf5", LIBERO_WIDTHS, task=name)
    ]
    source = open_hdf5(tmp_path)
    assert isinstance(source, Source)
    assert (source.control_hz, source.robot_name) == (20.0, "panda_libero")
    assert (source.defaults.state, source.defaults.action) == (tuple(STATE), ("actions",))
    assert [(entry.length, entry.task) for entry in source.entries()] == [
        (length, task) for task in ("task_2_demo", "task_10_demo") for length in LENGTHS
    ]
    for number, (found, expected) in enumerate(zip(_read(source, list(LIBERO_WIDTHS)), written, strict=True)):
        assert isinstance(found, RawEpisode)
        assert (found.number, found.task) == (number, source.entries()[number].task)
        for name, column in expected.items():
            np.testing.assert_array_equal(found.columns[name], column)


def test_demonstrations_are_the_same_as_from_an_archive(tmp_path: Path) -> None:
    written = write_robomimic(tmp_path / "open_the_drawer_demo.hdf5", LIBERO_WIDTHS)
    episodes = tuple(
        Episode(
            np.concatenate([columns[name] for name in STATE], axis=1).astype(np.float32),
            columns["actions"].astype(np.float32),
            np.arange(len(columns["actions"])) / 20,
            "open the drawer",
        )
        for columns in written
    )
    write_demonstrations(Demonstrations(episodes, 20.0, "panda_libero"), tmp_path / "same.npz")
    ours, same = (read_demonstrations(tmp_path / name) for name in ("open_the_drawer_demo.hdf5", "same.npz"))
    assert ours.fingerprint() == same.fingerprint()
    assert (ours.control_hz, ours.robot_name) == (same.control_hz, same.robot_name)
    for left, right in zip(ours, same, strict=True):
        assert left.task == right.task
        np.testing.assert_array_equal(left.timestamps, right.timestamps)


@pytest.mark.parametrize(
    ("widths", "state", "robot"),
    [
        (
            {name: width for name, width in LIBERO_WIDTHS.items() if name != "obs/ee_states"},
            ("obs/ee_pos", "obs/ee_ori", "obs/gripper_states"),
            "panda_libero",
        ),
        (
            ROBOMIMIC_WIDTHS,
            ("obs/robot0_eef_pos", "obs/robot0_eef_quat", "obs/robot0_gripper_qpos"),
            "panda_robomimic",
        ),
        (
            ROBOMIMIC_WIDTHS | {name.replace("0", "1"): width for name, width in ROBOMIMIC_WIDTHS.items()},
            tuple(f"obs/robot{arm}_{part}" for arm in (0, 1) for part in ("eef_pos", "eef_quat", "gripper_qpos")),
            "",
        ),
        (LIBERO_WIDTHS | {"actions": 8}, tuple(STATE), ""),
        ({"obs/my_own": 3, "actions": 2}, (), ""),
    ],
)
def test_the_state_is_guessed_from_the_columns(
    tmp_path: Path, widths: dict[str, int], state: tuple[str, ...], robot: str
) -> None:
    write_robomimic(tmp_path / "low_dim.hdf5", widths)
    source = open_layout(tmp_path / "low_dim.hdf5")
    assert (source.defaults.state, source.robot_name) == (state, robot)


def test_only_columns_of_numbers_are_offered(tmp_path: Path) -> None:
    write_robomimic(tmp_path / "low_dim.hdf5", LIBERO_WIDTHS)
    widths = {name: column.width for name, column in open_layout(tmp_path / "low_dim.hdf5").columns.items()}
    assert widths == LIBERO_WIDTHS | {"rewards": 1, "dones": 1}


@pytest.mark.parametrize(
    ("attribute", "content", "control_hz"),
    [
        ("env_args", np.bytes_(json.dumps({"env_kwargs": {"control_freq": 10}})), 10.0),
        ("env_args", '{"env_kwargs": {"control_freq": 10', None),
        ("env_args", b"\xff\xfe".decode("utf-8", "surrogateescape").encode("utf-8", "surrogateescape"), None),
        ("env_args", '{"env_kwargs": {"control_freq": "fast"}}', None),
        ("env_args", '{"env_kwargs": {"control_freq": NaN}}', None),
        ("env_args", "[" * 10_000, None),
        ("env_args", 3.0, None),
    ],
)
def test_the_frequency_is_none_when_its_attribute_is_damaged(
    tmp_path: Path, attribute: str, content: object, control_hz: float | None
) -> None:
    write_robomimic(tmp_path / "a.hdf5", LIBERO_WIDTHS)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        file["data"].attrs[attribute] = content
    assert open_layout(tmp_path / "a.hdf5").control_hz == control_hz


@pytest.mark.parametrize(
    ("name", "info", "task"),
    [
        ("a.hdf5", {"language_instruction": '"turn on the stove"'}, "turn on the stove"),
        ("a.hdf5", {"language_instruction": ["turn on", " the stove"]}, "turn on the stove"),
        ("a.hdf5", {"language_instruction": "turn \ud800"}, "turn ?"),
        ("KITCHEN_SCENE3_turn_on_the_stove_demo.hdf5", {}, "turn on the stove"),
        ("pick_up_the_bowl_demo.hdf5", {"language_instruction": 3}, "pick up the bowl"),
        ("low_dim_v141.hdf5", {}, ""),
    ],
)
def test_the_task_is_what_the_file_says_or_is_called(tmp_path: Path, name: str, info: object, task: str) -> None:
    write_robomimic(tmp_path / name, LIBERO_WIDTHS)
    with h5py.File(tmp_path / name, "a") as file:
        file["data"].attrs["problem_info"] = json.dumps(info)
    assert {entry.task for entry in open_layout(tmp_path / name).entries()} == {task}


def test_files_of_different_frequency_are_refused(tmp_path: Path) -> None:
    for name, rate in (("a.hdf5", 20), ("b.hdf5", 10)):
        write_robomimic(tmp_path / name, LIBERO_WIDTHS)
        with h5py.File(tmp_path / name, "a") as file:
            file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": rate}})
    with pytest.raises(InputError, match=r"20 Hz in a\.hdf5, 10 Hz in b\.hdf5"):
        _ = open_layout(tmp_path).control_hz


def test_episodes_come_in_the_order_asked_for(tmp_path: Path) -> None:
    for name in ("a.hdf5", "b.hdf5"):
        write_robomimic(tmp_path / name, LIBERO_WIDTHS)
    numbers = [4, 0, 5, 0]
    found = list(open_layout(tmp_path).read(numbers, ["actions"]))
    assert [episode.number for episode in found] == numbers
    assert [len(episode.columns["actions"]) for episode in found if isinstance(episode, RawEpisode)] == [4, 6, 9, 6]


def _replace(name: str, **options: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[f"{DEMO}/{name}"]
        file.create_dataset(f"{DEMO}/{name}", **options)

    return change


def _remove(file: h5py.File) -> None:
    del file[f"{DEMO}/actions"]


def _link_softly(file: h5py.File) -> None:
    _remove(file)
    file[f"{DEMO}/actions"] = h5py.SoftLink("/data/demo_0/actions")


def _link_outside(file: h5py.File) -> None:
    _remove(file)
    file[f"{DEMO}/actions"] = h5py.ExternalLink("other.hdf5", "/data/demo_0/actions")


def _make_virtual(file: h5py.File) -> None:
    _remove(file)
    layout = h5py.VirtualLayout((4, 7), "f8")
    layout[:] = h5py.VirtualSource("other.hdf5", "/data/demo_1/actions", (4, 7))
    file.create_virtual_dataset(f"{DEMO}/actions", layout)


def _write_partly(file: h5py.File) -> None:
    _replace("actions", shape=(4, 7), dtype="f4", chunks=(2, 7))(file)
    file[f"{DEMO}/actions"][:2] = 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove, "data/demo_1 lacks 'actions'; it holds dones, next_obs, obs"),
        (_link_softly, "'actions' is a link to '/data/demo_0/actions', which is not followed"),
        (_link_outside, "'actions' is a link to '/data/demo_0/actions', which is not followed"),
        (_make_virtual, "'actions' lies in another file, which is not followed"),
        (
            _replace("actions", shape=(4, 7), dtype="f4", external=[("/etc/hostname", 0, h5py.h5f.UNLIMITED)]),
            "'actions' lies in another file, which is not followed",
        ),
        (_replace("actions", data=np.zeros((4, 7, 2))), "'actions' must be numbers (rows, dimensions), not float64 of"),
        (
            _replace("actions", data=np.zeros(())),
            "'actions' must be numbers (rows, dimensions), not float64 of shape ()",
        ),
        (_replace("actions", data=h5py.Empty("f4")), "'actions' must be numbers (rows, dimensions)"),
        (_replace("actions", data=["a", "b"], dtype=h5py.string_dtype()), "'actions' must be numbers"),
        (_replace("actions", shape=(4,), dtype=h5py.ref_dtype), "'actions' must be numbers"),
        (_replace("actions", data=np.zeros((4, 6))), "'actions' has 6 numbers a row, but 7 in"),
        (_replace("actions", shape=(10**9, 7), dtype="f4"), "claims the shape (1000000000, 7), more than 1024 MiB"),
        (_replace("actions", shape=(10**6, 7), dtype="f4"), "'actions' holds 0 of 28000000 bytes"),
        (_write_partly, "'actions' holds 1 of 2 chunks; its recording was not finished"),
    ],
)
def test_a_bad_episode_is_named_and_the_others_are_read(
    tmp_path: Path, change: Callable[[h5py.File], None], message: str
) -> None:
    write_robomimic(tmp_path / "other.hdf5", LIBERO_WIDTHS)
    write_robomimic(tmp_path / "a.hdf5", LIBERO_WIDTHS)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        change(file)
    first, bad, last = _read(open_layout(tmp_path / "a.hdf5"))
    assert isinstance(bad, BadEpisode)
    assert bad.problem.startswith(f"episode 1: {tmp_path}/a.hdf5: data/demo_1")
    assert message in bad.problem
    assert isinstance(first, RawEpisode)
    assert isinstance(last, RawEpisode)


def test_what_no_format_may_hold_is_left_out_by_name(tmp_path: Path) -> None:
    write_robomimic(tmp_path / "a.hdf5", LIBERO_WIDTHS)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        file.copy("data/demo_0", "data/demo_3")
        file.copy("data/demo_0", "data/demo_4")
        for number, shape, value in ((0, (3, 7), 0.0), (1, (4, 7), np.nan), (2, (9, 7), 1e300), (3, (0, 7), 0.0)):
            del file[f"data/demo_{number}/actions"]
            file[f"data/demo_{number}/actions"] = np.full(shape, value)
    reading = read_datasets([tmp_path / "a.hdf5"], Selection(skip_bad=True))
    assert len(reading.demonstrations) == 1
    messages = (
        "'obs/ee_states' has 6, 'obs/gripper_states' has 6, 'actions' has 3",
        "column 'actions' holds nan in episode 1, row 0",
        "column 'actions' holds inf in episode 2, row 0",
        "'actions' has 0",
    )
    for number, (bad, message) in enumerate(zip(reading.left_out, messages, strict=True)):
        assert f"{tmp_path}/a.hdf5: data/demo_{number}: " in bad.problem
        assert message in bad.problem


def test_an_empty_episode_has_no_rows(tmp_path: Path) -> None:
    write_robomimic(tmp_path / "a.hdf5", LIBERO_WIDTHS)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        _replace("actions", shape=(0, 7), maxshape=(None, 7), dtype="f4")(file)
    found = _read(open_layout(tmp_path / "a.hdf5"))[1]
    assert isinstance(found, RawEpisode)
    assert found.columns["actions"].shape == (0, 7)


def test_a_truncated_file_is_one_bad_episode_of_its_folder(tmp_path: Path) -> None:
    for name in ("a.hdf5", "b.hdf5"):
        write_robomimic(tmp_path / name, LIBERO_WIDTHS)
    whole = (tmp_path / "a.hdf5").read_bytes()
    (tmp_path / "a.hdf5").write_bytes(whole[: len(whole) // 2])
    bad, *others = _read(open_layout(tmp_path))
    assert isinstance(bad, BadEpisode)
    assert f"{tmp_path}/a.hdf5 is not a whole HDF5 file" in bad.problem
    assert [episode.number for episode in others if isinstance(episode, RawEpisode)] == [1, 2, 3]
    with pytest.raises(InputError, match=r"a\.hdf5 is not a whole HDF5 file: .*truncated"):
        open_hdf5(tmp_path / "a.hdf5")


def test_pictures_alone_give_no_columns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("data/demo_0/obs/agentview_rgb", data=np.zeros((3, 4, 4, 3), np.uint8))
    source = open_layout(tmp_path / "a.hdf5")
    assert not source.columns
    with pytest.raises(InputError, match="has no column of numbers, only pictures"):
        read_datasets([tmp_path / "a.hdf5"], Selection(control_hz=20.0))


def test_other_hdf5_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["weights"] = np.zeros(3)
    with pytest.raises(InputError, match=r"a\.hdf5 has no layout that is known: it holds weights, not data/demo"):
        open_layout(tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_group("data")
    with pytest.raises(InputError, match=r"a\.hdf5: 'data' holds no demonstrations"):
        open_layout(tmp_path / "a.hdf5")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no HDF5 file"):
        open_layout(tmp_path / "empty")


def test_a_file_that_is_being_written_is_refused(tmp_path: Path) -> None:
    write_robomimic(tmp_path / "a.hdf5", LIBERO_WIDTHS)
    with (
        h5py.File(tmp_path / "a.hdf5", "a", locking=True),
        pytest.raises(InputError, match=r"a\.hdf5 is open for writing in another program"),
    ):
        open_hdf5(tmp_path / "a.hdf5")


def test_without_h5py_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_robomimic(tmp_path / "a.hdf5", LIBERO_WIDTHS)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"pip install 'speedup-patch\[hdf5\]'"):
        open_layout(tmp_path / "a.hdf5")


def test_liberos_own_files_hold_what_each_action_led_to_and_are_put_in_step(tmp_path: Path) -> None:
    written = write_robomimic(tmp_path / "own_demo.hdf5", LIBERO_WIDTHS)
    with h5py.File(tmp_path / "own_demo.hdf5", "r+") as file:
        file["data"].attrs["bddl_file_content"] = "(define (problem ...))"
    source = open_hdf5(tmp_path / "own_demo.hdf5")
    assert [entry.length for entry in source.entries()] == [length - 1 for length in LENGTHS]
    for found, columns in zip(_read(source), written, strict=True):
        assert isinstance(found, RawEpisode)
        np.testing.assert_array_equal(found.columns["obs/ee_states"], columns["obs/ee_states"][:-1])
        np.testing.assert_array_equal(found.columns["actions"], columns["actions"][1:])
