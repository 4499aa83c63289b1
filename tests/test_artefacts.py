"""Artefacts appear whole or not at all."""

import os
from pathlib import Path

import pytest

from speedup_patch.artefacts import (
    read_json,
    refuse_existing,
    write_file_atomically,
    write_folder_atomically,
    write_json,
    write_text_atomically,
)
from speedup_patch.errors import InputError


class Interruption(BaseException):
    """Like KeyboardInterrupt: not an Exception."""


def test_a_folder_appears_only_when_the_block_is_done(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "patch"
    with write_folder_atomically(target) as unfinished:
        (unfinished / "part").write_text("half")
        assert not target.exists()
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("part", "half")]
    assert list(target.parent.iterdir()) == [target]


def test_a_finished_folder_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with write_folder_atomically(tmp_path / "patch"):
        pass
    assert (tmp_path / "patch").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, Interruption])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failing_block_leaves_everything_as_it_was(
    tmp_path: Path, failure: type[BaseException], overwrite: bool
) -> None:
    target = tmp_path / "patch"
    if overwrite:
        target.mkdir()
        (target / "old").write_text("kept")

    def write_half() -> None:
        with write_folder_atomically(target, overwrite) as unfinished:
            (unfinished / "new").write_text("half")
            raise failure

    with pytest.raises(failure):
        write_half()
    left = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))]
    assert left == (["patch", "patch/old"] if overwrite else [])


def test_a_failing_file_leaves_everything_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_text_atomically(target, "old")

    def write_half() -> None:
        with write_file_atomically(target, overwrite=True) as unfinished:
            unfinished.write_text("half")
            raise Interruption

    with pytest.raises(Interruption):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_overwriting_replaces_the_whole_folder(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with write_folder_atomically(tmp_path / "patch", overwrite=True) as unfinished:
            (unfinished / content).write_text(content)
    assert [path.name for path in (tmp_path / "patch").iterdir()] == ["second"]
    assert list(tmp_path.iterdir()) == [tmp_path / "patch"]


def test_a_failing_rename_brings_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "patch"
    with write_folder_atomically(target) as unfinished:
        (unfinished / "old").write_text("kept")
    rename = Path.rename

    def fail_on_the_new_one(self: Path, destination: Path) -> Path:
        if self.name.endswith(".tmp"):
            raise OSError("disk")
        return rename(self, destination)

    monkeypatch.setattr(Path, "rename", fail_on_the_new_one)
    with pytest.raises(OSError, match="disk"), write_folder_atomically(target, overwrite=True):
        pass
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_target_is_refused_before_the_block_runs(tmp_path: Path) -> None:
    write_text_atomically(tmp_path / "taken", "mine")
    started = False
    with (
        pytest.raises(InputError, match="taken exists; choose another --out or pass --overwrite"),
        write_folder_atomically(tmp_path / "taken"),
    ):
        started = True
    assert not started
    refuse_existing(tmp_path / "taken", overwrite=True)
    refuse_existing(tmp_path / "free", overwrite=False)


def test_a_target_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "patch"
    with pytest.raises(InputError, match="exists"), write_folder_atomically(target):
        write_text_atomically(target / "theirs", "kept")
    assert [path.name for path in target.iterdir()] == ["theirs"]


def test_the_folder_one_works_in_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for path in (Path("."), Path(".."), tmp_path):
        with pytest.raises(InputError, match="holds the folder you work in"):
            refuse_existing(path, overwrite=True)


def test_a_link_is_followed_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    with write_folder_atomically(tmp_path / "link", overwrite=True) as unfinished:
        (unfinished / "new").write_text("")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "new").exists()


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    write_text_atomically(tmp_path / "file", "")
    with (
        pytest.raises(InputError, match=r"cannot make the folder .*file: "),
        write_folder_atomically(tmp_path / "file" / "patch"),
    ):
        pass
    with pytest.raises(InputError, match="is a folder"):
        write_text_atomically(tmp_path, "")


def test_json_comes_back_as_written(tmp_path: Path) -> None:
    document = {"text": "é", "numbers": [1, 2.5], "none": None}
    write_json(tmp_path / "a.json", document)
    assert read_json(tmp_path / "a.json") == document


def test_json_that_is_none_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"speedup": float("nan")})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[1]", b"7", b"[" * 100_000])
def test_garbage_is_refused_by_the_name_of_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "info.json").write_bytes(content)
    with pytest.raises(InputError, match=r"info\.json"):
        read_json(tmp_path / "info.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"info\.json does not exist"):
        read_json(tmp_path / "info.json")
