"""Damaged HDF5 files: refused or read, whatever they do to the HDF5 library.

Some damage makes that library itself crash or run for ever, so each trial runs in a forked process. There, Python
must see nothing but an ``InputError``; a death inside the library is what ``hdf5.py`` turns into one.
"""

import faulthandler
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_hdf5 import LIBERO_WIDTHS, write_aloha, write_robomimic
from speedup_patch.datasets import hdf5
from speedup_patch.datasets.assembly import assemble
from speedup_patch.datasets.hdf5 import open_hdf5
from speedup_patch.datasets.hdf5_layout import open_layout
from speedup_patch.datasets.selection import Selection
from speedup_patch.datasets.source import BadEpisode, RawEpisode
from speedup_patch.errors import InputError

SMALL = {name: LIBERO_WIDTHS[name] for name in ("obs/ee_states", "obs/gripper_states", "actions")}
IN_TIME = 2
DAMAGE = st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=4)
SURVIVED, LIBRARY_DIED = 0, {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGALRM}


def _read_everything(path: Path) -> None:
    try:
        source = open_layout(path)
        chosen = Selection(control_hz=20.0).choose_columns(source)
        episodes = list(source.read([entry.number for entry in source.entries()], list(source.columns)))
    except InputError:
        return
    for raw in episodes:
        if isinstance(raw, BadEpisode):
            assert str(path) in raw.problem
            continue
        try:
            episode = assemble(raw, chosen, source.columns, 20.0)
        except InputError:
            continue
        assert np.isfinite(episode.states).all()
        assert np.isfinite(episode.actions).all()


def _in_a_fork(work: Callable[[], None]) -> int:
    """How a process that does the work ends: 0, or 1 after an exception, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            faulthandler.disable()
            signal.alarm(IN_TIME)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(scope="module", params=["libero", "aloha"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """(a file to overwrite, what it holds while it is whole)."""
    path = tmp_path_factory.mktemp("damaged") / "episode_0.hdf5"
    if request.param == "libero":
        write_robomimic(path, SMALL)
    else:
        write_aloha(path, 5)
    return path, path.read_bytes()


@given(damage=DAMAGE, length=st.none() | st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_python_sees_nothing_but_input_errors(
    whole: tuple[Path, bytes], damage: list[tuple[int, int]], length: int | None
) -> None:
    path, content = whole
    changed = bytearray(content)
    used = np.flatnonzero(np.frombuffer(content, np.uint8))  # most of a small file is empty space
    for place, bits in damage:
        changed[used[place % len(used)]] ^= bits
    path.write_bytes(changed if length is None else changed[: length % len(content)])
    assert _in_a_fork(lambda: _read_everything(path)) in {SURVIVED, *LIBRARY_DIED}


@pytest.mark.parametrize("cause", ["crash", "endless loop"])
def test_a_file_that_ends_or_halts_the_library_is_named(tmp_path: Path, cause: str) -> None:
    path = tmp_path / "a.hdf5"
    write_robomimic(path, SMALL)
    content = bytearray(path.read_bytes())
    name = content.index(b"problem_info\0")
    if cause == "crash":
        content[content.index(b"\x19\x01\x01\x00", name) + 1] = 0xFF  # the attribute's type: no longer a text
    else:
        heap = content.index(b"GCOL")  # its free space ends a little later than it says
        free = content.rindex(b"}\0", heap, heap + 4096)
        place = next(i for i in range(free + 2, heap + 4096, 2) if content[i] and content[i + 1] == 0x0F)
        content[place + 1] -= 1
    path.write_bytes(content)
    if _in_a_fork(lambda: _read_everything(path)) not in LIBRARY_DIED:
        pytest.skip("this version of the HDF5 library survives the damage")
    with pytest.raises(InputError, match=r"a\.hdf5 is damaged: the HDF5 library (crashed|did not finish within 3 s)"):
        open_hdf5(path, patience=3.0)


def test_reading_goes_on_after_an_episode_that_ends_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.hdf5"
    write_robomimic(path, SMALL)
    source = open_hdf5(path)
    (tmp_path / "dying_worker.py").write_text(
        "import json, os, signal, sys\n"
        "from speedup_patch.datasets.hdf5_worker import answer\n"
        "request = json.load(sys.stdin)\n"
        "for number in request['numbers']:\n"
        "    if number == 1: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    answer(request | {'numbers': [number]}, sys.stdout.buffer)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(hdf5, "WORKER", "dying_worker")
    first, bad, last = source.read([0, 1, 2], ["actions"])
    assert isinstance(first, RawEpisode)
    assert isinstance(last, RawEpisode)
    assert isinstance(bad, BadEpisode)
    assert f"episode 1: {path} is damaged: the HDF5 library crashed (Segmentation fault)" in bad.problem
