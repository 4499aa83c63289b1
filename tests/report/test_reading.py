import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.run_folders import episode, three_schedulers, write_run, write_timed_run
from speedup_patch.errors import InputError
from speedup_patch.report.reading import in_words, read_run


def test_the_figures_are_those_of_results_json(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers())
    published = json.loads((folder / "results.json").read_text())["schedulers"]
    run = read_run(folder)
    assert set(run.summaries) == set(published)
    for spec, summary in run.summaries.items():
        assert summary.success_rate == published[spec]["success_rate"]
        assert summary.speedup == published[spec]["speedup"]
        assert list(summary.speedup_interval) == published[spec]["speedup_interval"]
        assert summary.fallbacks == published[spec]["fallbacks"]


def test_without_results_json_the_same_figures_are_computed_and_that_is_said(tmp_path):
    finished = read_run(write_run(tmp_path / "finished", three_schedulers()))
    stopped = read_run(write_run(tmp_path / "stopped", three_schedulers(), results=False))
    assert stopped.summaries == finished.summaries
    assert any("no results.json" in note for note in stopped.missing)
    assert not any("no results.json" in note for note in finished.missing)


def test_a_scheduler_that_results_json_does_not_cover_is_computed(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers())
    results = json.loads((folder / "results.json").read_text())
    removed = results["schedulers"].pop("fixed:2")
    (folder / "results.json").write_text(json.dumps(results))
    run = read_run(folder)
    assert run.summaries["fixed:2"].success_rate == removed["success_rate"]
    assert any("does not cover fixed:2" in note for note in run.missing)


def test_seconds_and_stress_are_those_of_results_json(tmp_path):
    folder = write_timed_run(tmp_path / "run")
    published = json.loads((folder / "results.json").read_text())["schedulers"]
    run = read_run(folder)
    assert json.loads(json.dumps({spec: asdict(summary) for spec, summary in run.summaries.items()})) == published
    assert [key for key, found in run.summaries["base"].latency.items() if found.reckoned] == ["0.05", "0.2"]
    assert run.summaries["my.patch"].stress.peak_joint_speed_ratio == 4.0
    assert all(result.latency == 0 for results in run.episodes.values() for result in results.values())
    results = json.loads((folder / "results.json").read_text())
    del results["schedulers"]["fixed:2"]
    (folder / "results.json").write_text(json.dumps(results))
    computed = read_run(folder).summaries["fixed:2"]
    assert computed.latency["0.1"].reckoned
    assert computed.latency["0.1"].seconds_mean == run.summaries["fixed:2"].latency["0.1"].seconds_mean


def test_missing_seeds_and_a_missing_base_are_named(tmp_path):
    run = read_run(write_run(tmp_path / "a", {"base": [episode(s, 1) for s in range(5)], "fixed:2": [episode(3, 2)]}))
    assert any("fixed:2 was not run on seeds 0-2, 4" in note for note in run.missing)
    alone = read_run(write_run(tmp_path / "b", {"fixed:2": [episode(0, 2)]}))
    assert any("base" in note for note in alone.missing)
    assert alone.summaries["fixed:2"].speedup is None


def test_an_empty_run_says_so(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"env": "aloha/insertion", "policy": "p"}')
    run = read_run(folder)
    assert run.schedulers == ()
    assert run.seeds == ()
    assert run.asked is None
    assert any("no episodes.jsonl" in note for note in run.missing)
    (folder / "episodes.jsonl").touch()
    assert any("holds no episodes" in note for note in read_run(folder).missing)


def test_a_line_that_is_being_written_is_left_out_and_left_alone(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers(seeds=2))
    path = folder / "episodes.jsonl"
    path.write_text(path.read_text() + '{"scheduler": "fixed:2", "seed": 2, "succ')
    before = path.read_bytes()
    run = read_run(folder)
    assert sorted(run.episodes["fixed:2"]) == [0, 1]
    assert any("line 7 cannot be read" in note for note in run.missing)
    assert path.read_bytes() == before


def test_a_run_of_an_older_release_is_refused_for_its_rates_are_others(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers(seeds=2))
    episodes, results = folder / "episodes.jsonl", folder / "results.json"
    whole = episodes.read_text()
    episodes.write_text(whole.replace('"done"', '"lost"'))
    with pytest.raises(InputError, match=r"episodes\.jsonl, line 1 .* how many original actions were done"):
        read_run(folder)
    episodes.write_text(whole)
    document = json.loads(results.read_text())
    del document["format_version"]
    results.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"results\.json is of an older release"):
        read_run(folder)


def test_traces_that_are_missing_are_counted(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers(seeds=2), traces=True)
    assert not any("trace" in note for note in read_run(folder).missing)
    next(folder.rglob("1.npz")).unlink()
    assert any("Only 5 of 6 episodes have a trace" in note for note in read_run(folder).missing)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"not a run folder.*sup eval"):
            read_run(folder)
    (tmp_path / "run.json").write_text('{"something": "else"}')
    with pytest.raises(InputError, match="env and a policy"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("no JSON")
    with pytest.raises(InputError, match=r"run\.json"):
        read_run(tmp_path)


def test_a_damaged_results_json_is_refused_by_name(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers(seeds=2))
    document = json.loads((folder / "results.json").read_text())
    document["schedulers"]["base"]["episodes"] = "many"
    (folder / "results.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"results\.json is damaged"):
        read_run(folder)


@given(st.sets(st.integers(0, 12), min_size=1))
def test_numbers_in_words_can_be_read_back(numbers):
    read: set[int] = set()
    for part in in_words(list(numbers), "seed").partition(" ")[2].split(", "):
        first, _, last = part.partition("-")
        read |= set(range(int(first), int(last or first) + 1))
    assert read == numbers
