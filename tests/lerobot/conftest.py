import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def run_module() -> Run:
    """Starts the ``main()`` of a module, such as LeRobot's own entry points, in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "HF_HUB_OFFLINE": "1",
        "MUJOCO_GL": "egl",
    }

    def start(module: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
        code = (
            "from vision_operators import declare_missing_operators; declare_missing_operators();"
            f"import importlib; importlib.import_module({module!r}).main()"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def insertion_patch(run_module: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A patch for ALOHA insertion."""
    folder = tmp_path_factory.mktemp("patches")
    with run_module("insertion_patch", "insertion.patch", folder=folder) as process:
        printed, _ = process.communicate(timeout=400)
    assert process.returncode == 0, printed[-4000:]
    return folder / "insertion.patch"
