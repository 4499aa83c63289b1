import csv
import json
from dataclasses import replace

import pytest

from speedup_patch.bench.results import FurtherTable, Layout, record, save_rows, write_markdown

LAYOUT = Layout("main", "What this is.", {"suite": "{suite}", "scheduler": "{scheduler}", "speedup": "{speedup:.2f}x"})
MADE = record("sup bench libero", range(3))


def save(out, suite, speedup):
    save_rows(out, LAYOUT, suite, [{"suite": suite, "scheduler": "base", "speedup": speedup}], ["a note"], MADE)


def test_suites_measured_one_by_one_end_up_in_one_table(tmp_path):
    save(tmp_path, "spatial", 1.0)
    save(tmp_path, "long", 1.5)
    save(tmp_path, "spatial", 2.0)
    document = json.loads((tmp_path / "main.json").read_text())
    assert document["suites"]["spatial"]["notes"] == ["a note"]
    assert document["suites"]["long"]["seeds"] == [0, 2]
    assert document["suites"]["long"]["command"] == "sup bench libero"
    assert "numpy" in document["suites"]["long"]["versions"]
    with (tmp_path / "main.csv").open() as file:
        assert [(row["suite"], float(row["speedup"])) for row in csv.DictReader(file)] == [
            ("spatial", 2.0),
            ("long", 1.5),
        ]
    assert "| long | base | 1.50x |" in (tmp_path / "main.md").read_text()


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_what_the_data_cannot_tell_is_a_dash_and_empty_and_null(tmp_path, unknown):
    save(tmp_path, "spatial", unknown)
    assert "| spatial | base | - |" in (tmp_path / "main.md").read_text()
    assert (tmp_path / "main.csv").read_text().splitlines()[1] == "spatial,base,"
    assert json.loads((tmp_path / "main.json").read_text())["suites"]["spatial"]["rows"][0]["speedup"] is None


def test_a_row_without_a_figure_has_a_dash_and_a_column_without_any_is_left_out():
    bare, whole = {"suite": "goal", "scheduler": "base"}, {"suite": "goal", "scheduler": "fixed:2", "speedup": 2.0}
    assert write_markdown(LAYOUT.columns, [whole, bare]).splitlines()[-1] == "| goal | base | - |"
    assert write_markdown(LAYOUT.columns, [bare]).splitlines()[-1] == "| goal | base |"


def test_a_row_that_is_not_measured_again_is_kept_with_the_command_that_made_it(tmp_path):
    keyed = replace(LAYOUT, key="scheduler")
    rows = [{"scheduler": name, "speedup": speedup} for name, speedup in (("base", 1.0), ("a", 2.0), ("b", 3.0))]
    save_rows(tmp_path, keyed, "goal", rows, [], MADE)
    again = record("sup bench libero --schedulers a c", range(3))
    save_rows(tmp_path, keyed, "goal", [rows[0], rows[1] | {"speedup": 2.5}, rows[2] | {"scheduler": "c"}], [], again)
    found = json.loads((tmp_path / "main.json").read_text())["suites"]["goal"]["rows"]
    assert [(row["scheduler"], row["speedup"]) for row in found] == [("base", 1.0), ("a", 2.5), ("b", 3.0), ("c", 3.0)]
    assert [row.get("command") for row in found] == [None, None, "sup bench libero", None]


@pytest.mark.parametrize(
    "other", [record("sup bench libero", range(4)), MADE | {"policy_sha256": "another"}, MADE | {"versions": {}}]
)
def test_rows_of_other_seeds_policies_or_versions_are_not_kept(tmp_path, other):
    keyed = replace(LAYOUT, key="scheduler")
    save_rows(tmp_path, keyed, "goal", [{"scheduler": "a", "speedup": 2.0}], [], MADE)
    save_rows(tmp_path, keyed, "goal", [{"scheduler": "b", "speedup": 3.0}], [], other)
    found = json.loads((tmp_path / "main.json").read_text())["suites"]["goal"]["rows"]
    assert [row["scheduler"] for row in found] == ["b"]


def test_further_tables_hold_what_some_row_knows_and_no_more(tmp_path):
    columns = {"suite": "{suite}", "scheduler": "{scheduler}", "peak": "{peak:.1f} rad/s", "force": "{force:.0f}"}
    layout = replace(LAYOUT, further=(FurtherTable("Stress.", columns),))
    row = {"suite": "goal", "scheduler": "base", "speedup": 1.0}
    save_rows(tmp_path, layout, "goal", [row | {"peak": None}], [], MADE)
    assert "Stress." not in (tmp_path / "main.md").read_text()
    save_rows(tmp_path, layout, "goal", [row | {"peak": 2.0, "force": None}, row], [], MADE)
    _, _, further = (tmp_path / "main.md").read_text().partition("\n\nStress.\n\n")
    assert further.splitlines() == [
        "| suite | scheduler | peak |",
        "| --- | --- | ---: |",
        "| goal | base | 2.0 rad/s |",
        "| goal | base | - |",
    ]
