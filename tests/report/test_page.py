import base64
import json
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from report.run_folders import episode, three_schedulers, write_run, write_timed_run
from speedup_patch.commands.report import report
from speedup_patch.errors import InputError
from speedup_patch.report import videos
from speedup_patch.report.counterfactuals import read_counterfactuals
from speedup_patch.report.page import PAGE_BYTES, write_report

graph_objects = pytest.importorskip("plotly.graph_objects")

MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "counterfactual_aloha_insertion.json"


class Page(HTMLParser):
    """What a browser would find in the page: elements, visible text, the data of its script."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.texts, self.cells, self.data, self._inside = [], [], {}, "", []
        self.feed(path.read_text())
        self.text = " ".join(" ".join(self.texts).split())
        self.json = json.loads(self.data)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.elements.append((tag, found))
        if tag not in ("meta", "link", "br", "img"):
            self._inside.append((tag, found))
        if tag == "tr" and "data-scheduler" in found:
            self._row = self.cells.setdefault(found["data-scheduler"], {})
        if tag == "td" and "data-key" in found:
            self._row[found["data-key"]] = found.get("data-value")

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._inside[-1] if self._inside else ("", {})
        if tag == "script" and attributes.get("id") == "data":
            self.data += data
        elif tag not in ("script", "style"):
            self.texts.append(data)


def page_of(*folders, tmp_path, **options):
    out = tmp_path / "report.html"
    written = write_report(folders, out, **options)
    assert written.bytes == out.stat().st_size < PAGE_BYTES
    return Page(out)


def test_the_table_holds_exactly_the_figures_of_results_json(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers())
    published = json.loads((folder / "results.json").read_text())["schedulers"]
    cells = page_of(folder, tmp_path=tmp_path).cells
    assert set(cells) == set(published)
    for spec, row in cells.items():
        for key in ("success_rate", "success_difference", "steps_mean", "speedup", "rate_mean", "policy_calls"):
            assert float(row[key]) == published[spec][key]
        assert float(row["fallbacks"]) == sum(published[spec]["fallbacks"].values())


def test_seconds_and_stress_have_tables_of_their_own_where_a_run_tells_them(tmp_path):
    folder = write_timed_run(tmp_path / "run")
    published = json.loads((folder / "results.json").read_text())["schedulers"]
    page = page_of(folder, tmp_path=tmp_path)
    for spec, row in page.cells.items():
        for key, figures in published[spec]["latency"].items():
            assert float(row[f"speedup_seconds {key}"]) == figures["speedup_seconds"]
        for key in ("peak_joint_speed", "peak_joint_speed_rating_ratio", "acceleration_99_ratio", "jerk_ratio"):
            assert float(row[key]) == published[spec]["stress"][key]
        assert "peak_force_ratio" not in row
    assert "50 ms, reckoned" in page.text
    assert "100 ms, reckoned" not in page.text
    before = page_of(write_run(tmp_path / "before", three_schedulers()), tmp_path=tmp_path)
    assert "Stress" not in before.text
    assert "reckoned" not in before.text


def test_the_page_asks_for_nothing_outside_itself(tmp_path):
    page = page_of(write_run(tmp_path / "run", three_schedulers()), tmp_path=tmp_path)
    for tag, attributes in page.elements:
        for key in ("src", "href"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (tag, attributes)
    (policy,) = [found["content"] for _, found in page.elements if "http-equiv" in found]
    assert "default-src 'none'" in policy


def test_every_figure_is_one_that_plotly_accepts(tmp_path, patch_folder):
    folder = write_run(tmp_path / "run", three_schedulers(str(patch_folder)), traces=True)
    figures = page_of(folder, tmp_path=tmp_path, counterfactual=[MEASURED]).json["figures"]
    assert {"pareto-0", "episodes-0", "fallbacks-0", "tasks", "counterfactual-0", "t0-0-scheduler"} <= set(figures)

    def coloured(value):
        if isinstance(value, dict):
            return {key: coloured(item) for key, item in value.items()}
        if isinstance(value, list):
            return [coloured(item) for item in value]
        return "black" if isinstance(value, str) and value.startswith("@") else value

    for figure in figures.values():
        graph_objects.Figure(data=coloured(figure["traces"]), layout=coloured(figure["layout"]))


def test_nothing_that_a_user_gives_becomes_markup(tmp_path):
    evil = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'
    schedulers = {"base": [episode(0, 1)], f"{evil}.patch": [episode(0, 2, reason=evil)]}
    folder = write_run(tmp_path / "run", schedulers, env=evil, policy=evil, traces=True)
    page = page_of(folder, tmp_path=tmp_path)
    plain = page_of(write_run(tmp_path / "plain", three_schedulers(seeds=1)), tmp_path=tmp_path)
    assert [tag for tag, _ in page.elements].count("script") == [tag for tag, _ in plain.elements].count("script") == 3
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.elements)
    assert evil in page.text
    for figure in page.json["figures"].values():
        for trace in figure["traces"]:
            assert "<" not in trace.get("name", "")
            assert "<img" not in trace.get("hovertemplate", "")


def test_an_empty_run_is_a_page_that_says_what_is_missing(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"env": "aloha/insertion", "policy": "p"}')
    page = page_of(folder, tmp_path=tmp_path)
    assert "Nothing has been run here yet." in page.text
    assert "There is no episodes.jsonl" in page.text
    assert page.cells == {}
    assert page.json["runs"][0]["first"] is None


def test_results_without_episodes_still_make_a_table(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers())
    (folder / "episodes.jsonl").unlink()
    (folder / "run.json").unlink()
    page = page_of(folder, tmp_path=tmp_path)
    assert set(page.cells) == {"base", "fixed:2", "my.patch"}
    assert "pareto-0" in page.json["figures"]
    assert "episodes-0" not in page.json["figures"]
    assert "single episodes, timelines and speedups per task cannot be shown" in page.text


def test_mixed_runs_share_a_page(tmp_path):
    one = write_run(tmp_path / "one", three_schedulers("a.patch"), traces=True)
    two = write_run(tmp_path / "two", {"fixed:2": [episode(0, 2)]}, env="my/own", policy="onnx:p", results=False)
    three = write_run(tmp_path / "three", three_schedulers("b.patch", seeds=20), env="libero/goal")
    page = page_of(one, two, three, tmp_path=tmp_path)
    assert [run["env"] for run in page.json["runs"]] == ["aloha/insertion", "my/own", "libero/goal"]
    assert "The unpatched policy (base) was not run" in page.text
    tasks = page.json["figures"]["tasks"]["layout"]["yaxis"]["categoryarray"]
    assert "aloha/insertion" in tasks
    assert "libero/goal/0" in tasks
    assert "my/own" not in tasks
    assert page.json["runs"][2]["tasks"]["0"].startswith("libero/goal/0: ")


def test_the_command_to_reproduce_is_on_the_page(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers("it's mine.patch"))
    text = page_of(folder, tmp_path=tmp_path).text
    assert (
        "sup eval aloha/insertion --policy bundled:aloha/insertion --scheduler base fixed:2 'it'\"'\"'s mine.patch'"
        in text
    )
    assert f"--episodes 6 --seed 0 --out {folder}" in text


def test_measured_counterfactuals_are_shown_as_they_are_in_the_file(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers())
    page = page_of(folder, tmp_path=tmp_path, counterfactual=[MEASURED])
    scores = json.loads(MEASURED.read_text())["models"]["servo"]["scores"]["1x states"]
    (trace,) = [
        trace for trace in page.json["figures"]["counterfactual-0"]["traces"] if trace.get("name") == "servo, 1x states"
    ]
    assert trace["x"] == [scores[rate]["true_mean"] for rate in ("2", "3", "4")]
    assert f"{scores['pooled']['spearman']:.3f}" in page.text


def test_a_file_without_counterfactuals_is_refused_by_name(tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"settings": {"env": "e"}, "models": {"servo": {"scores": {"all": {"2": {"bias": 1}}}}}}')
    with pytest.raises(InputError, match=r"other\.json holds no counterfactual scores"):
        read_counterfactuals(other)


def test_without_the_extra_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(InputError, match=r"speedup-patch\[report\]"):
        write_report([write_run(tmp_path / "run", three_schedulers())], tmp_path / "report.html")


def test_the_command_prints_what_is_missing_and_where_the_page_is(tmp_path, capsys):
    folder, out = write_run(tmp_path / "run", three_schedulers()), tmp_path / "new" / "report.html"
    report((folder,), out=out)
    printed = capsys.readouterr().out
    assert f"report -> {out}" in printed
    assert "missing:" in printed
    report((folder,), out=out, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["path"] == str(out)
    assert document["bytes"] == out.stat().st_size
    assert document["missing"]
    with pytest.raises(InputError, match="at least one run"):
        report((), out=out)
    shutil.rmtree(folder)
    with pytest.raises(InputError, match="not a run folder"):
        report((folder,), out=out)


def test_a_video_that_cannot_be_made_is_said_to_be_missing(tmp_path):
    folder = write_run(tmp_path / "run", three_schedulers())
    assert "There is no video" in page_of(folder, tmp_path=tmp_path, video=True).text


def test_a_video_lies_in_the_page_itself_unless_it_is_too_large(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", three_schedulers())
    monkeypatch.setattr(videos, "_render", lambda folder, spec: (f"film of {spec}".encode(), 4))
    page = page_of(folder, tmp_path=tmp_path, video=True)
    (source,) = [found["src"] for tag, found in page.elements if tag == "video"]
    assert base64.b64decode(source.removeprefix("data:video/mp4;base64,")) == b"film of my.patch"
    assert "my.patch on seed 4" in page.text
    monkeypatch.setattr(videos, "_render", lambda folder, spec: (bytes(videos.VIDEO_BYTES + 1), 4))
    page = page_of(folder, tmp_path=tmp_path, video=True)
    assert not any(tag == "video" for tag, _ in page.elements)
    assert "too much for this page" in page.text


def test_runs_of_the_same_environment_are_told_apart(tmp_path):
    folders = [write_run(tmp_path / name, three_schedulers()) for name in ("one", "two")]
    tasks = page_of(*folders, tmp_path=tmp_path).json["figures"]["tasks"]["layout"]["yaxis"]["categoryarray"]
    assert set(tasks) == {"aloha/insertion (one)", "aloha/insertion (two)"}
