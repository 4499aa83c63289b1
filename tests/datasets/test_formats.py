"""The format of a data set is recognised, and every format gives back what was written."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings

from sample_demonstrations import RECIPES, Recipe, assert_same
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets import read_datasets, read_demonstrations, write_demonstrations
from speedup_patch.errors import InputError
from speedup_patch.robots import ALOHA

NAMES = ["data", "data.npz"]


@pytest.mark.parametrize("name", NAMES)
@given(recipe=RECIPES)
@settings(max_examples=15, deadline=None)
def test_every_format_gives_back_what_was_written(name: str, recipe: Recipe) -> None:
    written = recipe.make()
    with TemporaryDirectory() as folder:
        write_demonstrations(written, Path(folder) / name)
        assert_same(read_demonstrations(Path(folder) / name), written)


def _aloha(robot_name: str = "aloha") -> Demonstrations:
    episode = Episode(np.zeros((3, 14), np.float32), np.ones((3, 14), np.float32), np.arange(3) / 50)
    return Demonstrations((episode,), 50.0, robot_name)


@pytest.mark.parametrize("name", NAMES)
def test_an_existing_data_set_is_replaced_only_on_request(tmp_path: Path, name: str) -> None:
    write_demonstrations(_aloha(), tmp_path / name)
    with pytest.raises(InputError, match="exists"):
        write_demonstrations(_aloha("other"), tmp_path / name)
    assert read_demonstrations(tmp_path / name).robot_name == "aloha"
    write_demonstrations(_aloha("other"), tmp_path / name, overwrite=True)
    assert read_demonstrations(tmp_path / name).robot_name == "other"
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_when_writing_fails(tmp_path: Path, name: str) -> None:
    short, other = _aloha().episodes[0], Episode(*(np.zeros((2, 14), np.float32),) * 2, np.arange(2) / 50)
    uneven = Demonstrations(
        (short, Episode(other.states, other.actions, other.timestamps, extras={"observation.x": other.states})), 50.0
    )
    with pytest.raises(InputError, match="episode 1 has further columns"):
        write_demonstrations(uneven, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_dimensions_are_named_by_the_robot(tmp_path: Path) -> None:
    write_demonstrations(_aloha(), tmp_path / "known")
    write_demonstrations(_aloha("mine"), tmp_path / "given", ALOHA)
    write_demonstrations(_aloha("mine"), tmp_path / "unknown")
    for name in ("known", "given"):
        found = read_datasets([tmp_path / name])
        assert (found.state_names, found.action_names) == (ALOHA.state_names, ALOHA.action_names)
    assert read_datasets([tmp_path / "unknown"]).state_names[:2] == ("state_0", "state_1")


def test_a_robot_of_other_sizes_is_refused(tmp_path: Path) -> None:
    episode = Episode(np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32), np.arange(3) / 50)
    with pytest.raises(InputError, match="2 state and 2 action dimensions, but robot 'aloha' has 14 and 14"):
        write_demonstrations(Demonstrations((episode,), 50.0), tmp_path / "data", ALOHA)


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist; a data set is a LeRobot folder"):
        read_demonstrations(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no meta/info\.json \(LeRobot\), no dataset_info\.json \(RLDS\)"):
        read_demonstrations(tmp_path)
    (tmp_path / "demo.csv").write_bytes(b"")
    with pytest.raises(InputError, match=r"demo\.csv is of a format that is not known; a data set is"):
        read_demonstrations(tmp_path / "demo.csv")


def test_archives_do_not_need_pyarrow(tmp_path: Path) -> None:
    write_demonstrations(_aloha(), tmp_path / "data.npz")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path; from speedup_patch.datasets import read_demonstrations\n"
        f"print(read_demonstrations(Path({str(tmp_path / 'data.npz')!r})).frames)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
