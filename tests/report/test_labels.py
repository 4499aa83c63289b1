from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.evaluation.compare import SchedulerSummary
from speedup_patch.report.labels import is_patch, plot_text, short_labels, split_spec, styles
from speedup_patch.report.table import COLUMNS, signed, table_rows

PATHS = st.lists(st.sampled_from(["a", "b", "runs", "my.patch"]), min_size=1, max_size=4).map("/".join)
SPECS = st.sets(
    st.one_of(
        st.just("base"),
        st.integers(1, 4).map("fixed:{}".format),
        PATHS,
        PATHS.map("mpc:{}".format),
        PATHS.map("dwell+{}".format),
    ),
    min_size=1,
)


@given(SPECS)
def test_every_scheduler_has_a_label_of_its_own_that_ends_like_it(specs):
    labels = short_labels(specs)
    assert len(set(labels.values())) == len(specs)
    for spec, label in labels.items():
        assert spec.endswith(label.removeprefix(split_spec(spec)[0]))


def test_paths_are_cut_only_as_far_as_they_differ():
    assert short_labels(["runs/bench/my.patch", "mpc:runs/bench/my.patch", "base"]) == {
        "runs/bench/my.patch": "my.patch",
        "mpc:runs/bench/my.patch": "mpc:my.patch",
        "base": "base",
    }
    assert short_labels(["runs/a/my.patch", "runs/b/my.patch"])["runs/a/my.patch"] == "a/my.patch"


def test_only_a_patch_itself_counts_as_patch():
    assert is_patch("runs/my.patch")
    others = ("base", "fixed:2", "mpc:my.patch", "dwell+my.patch", "dwell+fixed:4", "without-guard:my.patch")
    assert not any(map(is_patch, (*others, "tracked:3:my.patch", "without-guard+with-slack=0+mpc:my.patch")))


def test_the_last_patch_of_each_run_is_in_the_accent_colour():
    drawn = styles([("base", "fixed:2", "paper.patch", "a.patch"), ("base", "b.patch")])
    accents = {spec for spec, style in drawn.items() if style.color == "@accent"}
    assert accents == {"a.patch", "b.patch"}
    assert len({(style.color, style.symbol) for spec, style in drawn.items() if spec != "b.patch"}) == 4


def test_markup_in_names_does_not_reach_plotly():
    assert "<" not in plot_text("<b>bold</b>")
    assert plot_text("a & b") == "a &amp; b"


def summary(success: float, steps: float | None, speedup: float | None) -> SchedulerSummary:
    return SchedulerSummary(
        10, round(10 * success), success, (0.1, 0.9), steps, speedup, None, 0.0, (-0.1, 0.1), 1.0, 3.0, {"late": 2}
    )


def test_the_best_of_each_column_is_marked_ties_too_but_not_when_all_are_alike():
    rows = table_rows(
        {"base": summary(1.0, 300.0, 1.0), "fixed:2": summary(1.0, 150.0, 2.0), "a": summary(0.5, None, None)},
        styles([("base", "fixed:2", "a")]),
    )
    best = {(row.spec, cell.key) for row in rows for cell in row.cells if cell.best}
    assert best == {
        ("base", "success_rate"),
        ("fixed:2", "success_rate"),
        ("fixed:2", "steps_mean"),
        ("fixed:2", "speedup"),
    }
    assert all([cell.key for cell in row.cells] == list(COLUMNS) for row in rows)


def test_a_single_row_is_not_the_best_of_anything():
    (row,) = table_rows({"base": summary(1.0, 300.0, 1.0)}, styles([("base",)]))
    assert not any(cell.best for cell in row.cells)


def test_differences_carry_their_sign():
    assert [signed(value) for value in (0.031, -0.5, 0.001, -0.001)] == ["+0.03", "\N{MINUS SIGN}0.50", "0", "0"]
