import subprocess
import sys
import threading

import numpy as np
import pytest
from pyarrow import parquet

from speedup_patch.errors import InputError
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.decision_log import FILES_WAITING, DecisionLog, LoggedDecision, read_decisions
from speedup_patch.runtime.engine import load_engine
from stand_ins import smooth_demonstrations

EPISODE = smooth_demonstrations(episodes=12).episodes[0]


def run(accelerator, times):
    for t in times:
        accelerator.shorten(EPISODE.actions[t : t + 12], EPISODE.states[t], EPISODE.states[max(t - 1, 0)])


def test_a_log_gives_back_every_decision_in_order(patch_folder, tmp_path):
    log = DecisionLog(tmp_path / "log", rows_per_file=4)
    run(ChunkAccelerator(load_engine(patch_folder), log=log), range(10))
    log.flush()
    decisions = read_decisions(tmp_path / "log")
    assert len(decisions) == 10
    for t, decision in enumerate(decisions):
        np.testing.assert_array_equal(decision.chunk, EPISODE.actions[t : t + 12])
        assert 1 <= decision.executed <= decision.done == 12
        assert decision.commands.shape == (decision.executed, 14)
        assert len(decision.positions) == decision.executed
        assert decision.seconds > 0
        assert decision.before.shape == (2, 14)
        assert np.isfinite(decision.before).all() == (t > 0)


def test_a_log_of_an_older_release_is_refused_for_it_lacks_the_commands(tmp_path):
    log = DecisionLog(tmp_path)
    log.add(decision(0))
    log.flush()
    (file,) = tmp_path.iterdir()
    parquet.write_table(parquet.read_table(file).drop_columns(["commands", "positions"]), file)
    with pytest.raises(InputError, match=r"decisions-000000\.parquet is of an older release.*log again"):
        read_decisions(tmp_path)


def test_a_second_run_adds_to_the_log(patch_folder, tmp_path):
    for _ in range(2):
        log = DecisionLog(tmp_path / "log", rows_per_file=2)
        run(ChunkAccelerator(load_engine(patch_folder), log=log), range(3))
        log.flush()
    assert len(read_decisions(tmp_path / "log")) == 6


def test_a_full_disk_never_stops_the_robot(patch_folder, tmp_path, monkeypatch, caplog):
    log = DecisionLog(tmp_path / "log", rows_per_file=2)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    accelerator = ChunkAccelerator(load_engine(patch_folder), log=log)
    run(accelerator, range(5))
    log.flush()
    assert accelerator.decisions == 5
    assert log.lost == 5
    assert "No space left" in caplog.text
    assert list((tmp_path / "log").iterdir()) == []


def test_a_damaged_log_is_refused_by_file(patch_folder, tmp_path):
    log = DecisionLog(tmp_path / "log", rows_per_file=2)
    run(ChunkAccelerator(load_engine(patch_folder), log=log), range(2))
    log.flush()
    file = tmp_path / "log" / "decisions-000000.parquet"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"decisions-000000\.parquet"):
        read_decisions(tmp_path / "log")
    with pytest.raises(InputError, match="no decision log"):
        read_decisions(tmp_path)


def decision(number):
    return LoggedDecision(
        np.full(4, float(number)), np.zeros((2, 3)), np.zeros((1, 3)), np.array([2.0]), None, 0.001, np.zeros((0, 3))
    )


def test_threads_may_share_a_log(tmp_path):
    log = DecisionLog(tmp_path, rows_per_file=10)
    threads = [threading.Thread(target=lambda: [log.add(decision(i)) for i in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.flush()
    assert log.lost == 0
    assert len(read_decisions(tmp_path)) == 200


def test_two_logs_may_share_a_folder(tmp_path):
    logs = [DecisionLog(str(tmp_path), rows_per_file=2) for _ in range(2)]
    for number in range(6):
        for log in logs:
            log.add(decision(number))
    for log in logs:
        log.flush()
    assert [log.lost for log in logs] == [0, 0]
    assert len(read_decisions(tmp_path)) == 12


def test_a_slow_disk_does_not_hold_up_the_robot(tmp_path, monkeypatch):
    log, slow = DecisionLog(tmp_path, rows_per_file=2), threading.Event()
    write = DecisionLog._write
    monkeypatch.setattr(DecisionLog, "_write", lambda log, rows: (slow.wait(60), write(log, rows)))
    for number in range(7):
        log.add(decision(number))  # would never return if it waited for the disk
    assert list(tmp_path.iterdir()) == []
    slow.set()
    log.flush()
    assert [int(found.observation[0]) for found in read_decisions(tmp_path)] == list(range(7))


def test_what_waits_for_a_stuck_disk_does_not_grow(tmp_path, monkeypatch):
    log, slow = DecisionLog(tmp_path, rows_per_file=2), threading.Event()
    write = DecisionLog._write
    monkeypatch.setattr(DecisionLog, "_write", lambda log, rows: (slow.wait(60), write(log, rows)))
    for number in range(500):
        log.add(decision(number))
    assert len(log._rows) <= 2 * FILES_WAITING
    slow.set()
    log.flush()
    assert len(read_decisions(tmp_path)) + log.lost == 500


def test_a_full_log_is_written_without_being_asked(tmp_path):
    log = DecisionLog(tmp_path, rows_per_file=2)
    log.add(decision(0))
    log.add(decision(1))
    assert log._writer is not None
    log._writer.join(600)
    assert len(read_decisions(tmp_path)) == 2


def test_what_is_remembered_is_written_when_the_program_ends(tmp_path):
    script = (
        "import sys, numpy as np\n"
        "from speedup_patch.runtime.decision_log import DecisionLog, LoggedDecision\n"
        "log = DecisionLog(sys.argv[1])\n"
        "none = np.zeros((0, 3))\n"
        "log.add(LoggedDecision(np.zeros(4), np.zeros((1, 3)), np.zeros((1, 3)), np.ones(1), None, 0.001, none))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=600)
    assert len(read_decisions(tmp_path)) == 1
