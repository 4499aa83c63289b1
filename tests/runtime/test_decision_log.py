import numpy as np
import pytest

from speedup_patch.errors import InputError
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.decision_log import DecisionLog, read_decisions
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
    assert len(list((tmp_path / "log").iterdir())) == 3
    assert len(decisions) == 10
    for t, decision in enumerate(decisions):
        np.testing.assert_array_equal(decision.chunk, EPISODE.actions[t : t + 12])
        assert 1 <= decision.executed <= 12
        assert decision.seconds > 0


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
    assert accelerator.decisions == 5
    assert log.lost == 4
    assert "No space left" in caplog.text
    assert list((tmp_path / "log").iterdir()) == []


def test_a_damaged_log_is_refused_by_file(patch_folder, tmp_path):
    log = DecisionLog(tmp_path / "log", rows_per_file=2)
    run(ChunkAccelerator(load_engine(patch_folder), log=log), range(2))
    file = tmp_path / "log" / "decisions-000000.parquet"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"decisions-000000\.parquet"):
        read_decisions(tmp_path / "log")
    with pytest.raises(InputError, match="no decision log"):
        read_decisions(tmp_path)
