import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: its threads spin when the cores are busy

import pytest
from hypothesis import settings

# The same examples on every machine and in every run; --hypothesis-profile=search looks for new ones.
settings.register_profile("quick", max_examples=40, deadline=None, report_multiple_bugs=False, derandomize=True)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile("quick")


@pytest.fixture
def sup(monkeypatch, capsys):
    """Runs ``sup ...`` and returns (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sup", *map(str, arguments)])
        from speedup_patch.cli import main

        code = 0
        try:
            main()
        except SystemExit as exit:
            code = exit.code
        return code, *capsys.readouterr()

    return run
