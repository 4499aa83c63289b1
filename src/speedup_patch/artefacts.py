"""Files and folders that appear under their final name whole or not at all.

Everything is written to a hidden sibling first and renamed when it is finished, so an exception, Ctrl-C or a full disk
leaves nothing half-written; a process that is killed outright can leave only that hidden sibling behind.
"""

import json
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from speedup_patch.errors import InputError


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raises an error when ``path`` is taken and may not be replaced; call it before work starts that takes long."""
    target = path.resolve()
    if not target.exists():
        return
    if not overwrite:
        raise InputError(f"{path} exists; choose another --out or pass --overwrite")
    if target.is_dir() and any(inside.is_relative_to(target) for inside in (Path.cwd(), Path.home())):
        raise InputError(f"{path} holds the folder you work in, and would be deleted; choose another --out")


@contextmanager
def write_folder_atomically(path: Path, overwrite: bool = False) -> Generator[Path, None, None]:
    """Yields an empty folder to fill, which takes the name ``path`` if the block succeeds and is gone if it fails."""
    refuse_existing(path, overwrite)
    target = path.resolve()
    unfinished, replaced = _hidden_sibling(target, "tmp"), _hidden_sibling(target, "old")
    _make_folder(target.parent)
    _remove(unfinished)
    unfinished.mkdir()
    try:
        yield unfinished
        refuse_existing(path, overwrite)
        if target.exists():
            target.rename(replaced)
        unfinished.rename(target)
    finally:
        if replaced.exists() and not target.exists():
            replaced.rename(target)
        _remove(unfinished)
        _remove(replaced)


@contextmanager
def write_file_atomically(path: Path, overwrite: bool = False) -> Generator[Path, None, None]:
    """Yields a file name to write to, which is renamed to ``path`` if the block succeeds and removed if it fails."""
    refuse_existing(path, overwrite)
    target = path.resolve()
    if target.is_dir():
        raise InputError(f"{path} is a folder; choose the name of a file")
    _make_folder(target.parent)
    # The suffix stays last, because some writers append one they miss.
    unfinished = target.with_name(f".{target.stem}.{os.getpid()}.tmp{target.suffix}")
    try:
        yield unfinished
        refuse_existing(path, overwrite)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Writes or replaces one UTF-8 text file."""
    with write_file_atomically(path, overwrite=True) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes or replaces one JSON file; NaN and infinity are not JSON and raise ``ValueError``."""
    write_text_atomically(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{path} must hold a JSON object in braces, not a {type(document).__name__}")
    return document


def _hidden_sibling(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{ending}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}; choose another --out") from error
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write in {folder}: permission denied; choose another --out")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
