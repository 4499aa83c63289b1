"""The picture of an inspection is written whole, for any robot and for none."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sample_motions import demonstrate
from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.inspect import look_at
from speedup_patch.inspect.curves import curves_around_flips, pauses_along_episodes, speed_along_episodes
from speedup_patch.inspect.motion import step_speeds
from speedup_patch.inspect.plot import plot_view, refuse_other_formats
from speedup_patch.robots import ALOHA, PANDA_LIBERO, Robot


def _first_frame(data: Demonstrations) -> Demonstrations:
    first = data.episodes[0]
    one = replace(first, states=first.states[:1], actions=first.actions[:1], timestamps=first.timestamps[:1])
    return replace(data, episodes=(one,))


def _of_no_robot(data: Demonstrations) -> Demonstrations:
    return replace(data, episodes=tuple(replace(episode, states=episode.states[:, :9]) for episode in data))


@pytest.mark.parametrize(
    ("data", "name", "magic"),
    [
        (_first_frame(demonstrate(PANDA_LIBERO, episodes=1, name="panda_libero")), "b.PDF", b"%PDF"),
        (_of_no_robot(demonstrate(ALOHA, episodes=3)), "c.svg", b"<?xml"),
    ],
    ids=["one frame", "no robot"],
)
def test_a_picture_has_the_format_of_its_name(tmp_path: Path, data: Demonstrations, name: str, magic: bytes) -> None:
    plot_view(look_at(data).view, "demos", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(magic)
    assert len(content) > 10_000


@pytest.mark.parametrize(("file", "words"), [("a.jpeg", ".png, .pdf, .svg"), ("nowhere/a.png", "no folder")])
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, file: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        refuse_other_formats(tmp_path / file)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"speedup-patch\[plot\]"):
        refuse_other_formats(tmp_path / "a.png")


def test_curves_are_those_of_the_data() -> None:
    view = look_at(demonstrate(PANDA_LIBERO), PANDA_LIBERO).view
    (speed,) = speed_along_episodes(view)
    metres, _ = step_speeds(view)
    assert 0 <= speed.x.min() < speed.x.max() <= 1
    assert metres.min() <= speed.low.min() <= speed.median.max() <= speed.high.max() <= metres.max()
    places, shares = pauses_along_episodes(view)
    assert places.shape == shares.shape
    assert not shares.any()


@pytest.mark.parametrize("robot", [ALOHA, PANDA_LIBERO], ids=lambda robot: robot.name)
def test_fingers_follow_the_command_after_a_flip(robot: Robot) -> None:
    curves = curves_around_flips(look_at(demonstrate(robot), robot).view)
    assert set(curves) == {"opening", "closing"}
    for side, (before, after) in {"opening": (0.0, 1.0), "closing": (1.0, 0.0)}.items():
        found = curves[side]
        assert found.command.median[found.command.x < 0] == pytest.approx(before)
        assert found.command.median[found.command.x >= 0] == pytest.approx(after)
        stroke = robot.grippers[0].stroke_steps / robot.control_hz
        there = found.fingers.median[found.fingers.x >= stroke + 0.01]
        assert there == pytest.approx(np.full(len(there), after), abs=1e-5)
        assert 0.1 < found.fingers.median[np.searchsorted(found.fingers.x, stroke / 2)] < 0.9
