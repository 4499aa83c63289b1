"""The tables of the README: from the committed results, with or without seconds and stress."""

import json
from pathlib import Path

import numpy as np
import pytest

from report.run_folders import write_timed_run
from speedup_patch.bench.config import LIBERO_SUITES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import readme_table

    return readme_table


def test_means_over_suites_are_those_of_the_suites_own_rows(tables):
    found = json.loads((BENCHMARKS / "results" / "libero" / "main.json").read_text())["suites"]
    episodes = tables.read_episodes(BENCHMARKS / "results" / "libero")
    for scheduler in ("base", "fixed:2", "PATCH"):
        rows = [row for suite in LIBERO_SUITES for row in found[suite]["rows"] if row["scheduler"] == scheduler]
        means = tables.suite_means(episodes["base"], episodes[scheduler])
        assert means.success[0] == pytest.approx(np.mean([row["success"] for row in rows]))
        assert means.speedups[0][0] == pytest.approx(np.mean([row["speedup"] for row in rows]), rel=1e-4)
        assert means.calls == pytest.approx(np.mean([row["policy_calls"] for row in rows]))
        for middle, low, high in (means.success, *means.speedups):
            assert low <= middle <= high
        assert list(means.per_hour) == sorted(means.per_hour, reverse=True)


def test_seconds_and_stress_are_printed_where_results_have_them(tables, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "NAMES", {"base": "unpatched policy", "fixed:2": "fixed 2"})
    results = json.loads((write_timed_run(tmp_path / "run") / "results.json").read_text())["schedulers"]
    tables.print_aloha_further("transfer", results)
    printed = capsys.readouterr().out
    assert "| transfer, in seconds | calls | 0 ms | 50 ms, reckoned | 100 ms | 200 ms, reckoned |" in printed
    assert "| fixed 2 | 2.00x | 1.00x | 4.00x | 8.00x | - |" in printed
    for figures in results.values():
        del figures["latency"], figures["stress"]
    tables.print_aloha_further("transfer", results)
    assert capsys.readouterr().out == ""
