"""Progress as a user sees it: on a terminal, and in a log file."""

import io
import re

import pytest
from rich.console import Console

from speedup_patch.progress import PlainLines, readable, show_bars, show_progress
from speedup_patch.reporting import together


@pytest.fixture
def clock(monkeypatch):
    """Seconds pass only when a test says so."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr("speedup_patch.progress.time.monotonic", lambda: Clock.now)
    return Clock


def test_plain_lines_come_now_and_then_and_at_the_end(clock, capsys):
    lines = PlainLines()
    for step in range(0, 41):
        lines("scheduler", step, 40, {"loss": 0.5, "held_out_loss": 0.25} if step in (10, 40) else {})
        clock.now += 1.0
    written = capsys.readouterr().err.splitlines()
    assert [re.match(r"scheduler: (\d+)/40", line)[1] for line in written] == ["0", "10", "20", "30", "40"]
    assert written[0] == "scheduler: 0/40  0:00"
    assert written[2] == "scheduler: 20/40  0:20, 0:20 left  loss 0.5  held-out loss 0.25"
    assert "left" not in written[-1]


def test_time_left_counts_only_the_steps_of_this_run(clock, capsys):
    lines = PlainLines()
    lines("scheduler", 900, 1000, {})
    clock.now += 30.0
    lines("scheduler", 950, 1000, {})
    assert "0:30, 0:30 left" in capsys.readouterr().err.splitlines()[-1]


def test_a_terminal_shows_stage_figures_and_time_left_in_eighty_columns(clock):
    screen = io.StringIO()
    with show_bars(Console(file=screen, force_terminal=True, width=80, color_system=None)) as report:
        report("world model", 0, 100, {})
        clock.now += 12.0
        report("world model", 20, 100, {"loss": 0.0123, "held_out_loss": 0.034})
        report("world model", 20, 100, {})
    last = screen.getvalue().rsplit("world model", 1)[1]
    assert "20/100 0:12, 0:48 left" in last
    assert "loss 0.0123  held-out loss 0.034" in last


def test_quiet_work_and_several_listeners(capsys):
    heard = []
    with show_progress(quiet=True) as report:
        together(report, lambda *told: heard.append(told), lambda *told: heard.append(told[:1]))("a", 1, 2, {"b": 3.0})
    assert capsys.readouterr() == ("", "")
    assert heard == [("a", 1, 2, {"b": 3.0}), ("a",)]


def test_times_are_written_so_that_longer_reads_longer():
    assert [readable(seconds) for seconds in (0.0, 61.0, 3599.0, 3723.4)] == ["0:00", "1:01", "59:59", "1:02:03"]
    texts = [readable(float(seconds)) for seconds in range(0, 4000, 7)]
    assert len(set(texts)) == len(texts)
