import sys

import pytest
from hypothesis import settings

settings.register_profile("quick", max_examples=40, deadline=None, report_multiple_bugs=False)
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
