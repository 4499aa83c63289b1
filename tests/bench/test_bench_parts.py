"""The parts on the real simulator and policy of ALOHA, with few episodes and a patch that was hardly trained."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from speedup_patch.bench import ablation, counterfactual, phases, tuning, violations
from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.parts import PARTS, run_bench
from speedup_patch.commands.bench import PART_NAMES, _command, bench
from speedup_patch.commands.train import train
from speedup_patch.data import EpisodeResult
from speedup_patch.datasets import write_demonstrations
from speedup_patch.envs.seeds import DEMONSTRATIONS, DEVELOPMENT, FRESH, common_scenes
from speedup_patch.errors import InputError
from speedup_patch.evaluation.phases import PHASES
from speedup_patch.reporting import silent
from speedup_patch.runtime.patch_folder import load_patch
from stand_ins import smooth_demonstrations

SUITE = "transfer"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    write_demonstrations(smooth_demonstrations(), work / "wander.npz")
    quick = {"preset": "bigym", "world_model": "mlp", "steps": 2, "tensorboard": False}
    train((work / "wander.npz",), robot="aloha", out=work / f"{SUITE}.patch", **quick)
    quick |= {"preset": "real", "chunk": 24}
    train((work / "wander.npz",), robot="aloha", out=work / f"{SUITE}_real.patch", **quick)
    train((work / "wander.npz",), robot="aloha", out=work / f"{SUITE}_real_eps0.02.patch", epsilon=0.02, **quick)
    return BenchConfig(
        family="aloha",
        suites=(SUITE,),
        episodes=2,
        schedulers=("fixed:2", "mpc:PATCH", "PAPER_PATCH"),
        work=work,
        out=work / "results",
        counterfactual_episodes=1,
    )


def read_rows(config, part):
    with (config.out / f"{part}.csv").open() as file:
        return list(csv.DictReader(file))


def test_parts_are_measured_and_what_is_missing_is_said(config):
    left_out = run_bench(config, ["gripper", "main"], "sup bench libero", silent)
    assert [line.partition(":")[0] for line in left_out] == ["gripper, transfer", "main, transfer"]
    assert "+double_gripper" in left_out[0]
    assert "PAPER_PATCH left out: there is no" in left_out[1]
    rows = read_rows(config, "main")
    assert [row["scheduler"] for row in rows] == ["base", "fixed:2", "mpc:PATCH"]
    assert {row["episodes"] for row in rows} == {"2"}
    singles = read_rows(config, f"episodes_{SUITE}")
    assert {(row["scheduler"], float(row["rate"])) for row in singles if row["scheduler"] != "mpc:PATCH"} == {
        ("base", 1.0),
        ("fixed:2", 2.0),
    }
    assert float(rows[0]["speedup"]) == 1.0
    assert float(rows[0]["speedup_100ms"]) == 1.0
    assert float(rows[1]["seconds_0ms"]) == pytest.approx(float(rows[1]["steps"]) / 50)
    assert float(rows[1]["seconds_200ms"]) > float(rows[1]["seconds_100ms"]) > float(rows[1]["seconds_0ms"])
    assert float(rows[1]["throughput_0ms"]) > float(rows[1]["throughput_50ms"])
    assert float(rows[1]["peak_joint_speed_ratio"]) > 1.0 == float(rows[0]["peak_joint_speed_ratio"])
    text = (config.out / "main.md").read_text()
    assert "speedup at 100 ms, reckoned" in text
    assert "peak joint speed to rating" in text
    assert "peak force to rating" not in text  # the servos' sheets tell no torque


def test_a_second_call_goes_on_with_what_is_missing(config):
    run_bench(config, ["main"], "first", silent)
    (episodes,) = (config.work / "runs" / SUITE).glob("*/rules/episodes.jsonl")
    before = episodes.read_text()
    run_bench(replace(config, schedulers=("fixed:2", "fixed:3")), ["main"], "second", silent)
    assert episodes.read_text().startswith(before)
    added = [json.loads(line)["scheduler"] for line in episodes.read_text()[len(before) :].splitlines()]
    assert added == ["fixed:3"] * 2
    assert json.loads((config.out / "main.json").read_text())["suites"][SUITE]["command"] == "second"
    kept = {row["scheduler"]: row["command"] for row in read_rows(config, "main")}
    assert kept == {"base": "", "fixed:2": "", "mpc:PATCH": "first", "fixed:3": ""}
    singles = [row["scheduler"] for row in read_rows(config, f"episodes_{SUITE}")]
    assert sorted(singles) == sorted(2 * list(kept))
    run_bench(replace(config, episodes=1, schedulers=("fixed:2",)), ["main"], "fewer seeds", silent)
    assert [row["scheduler"] for row in read_rows(config, f"episodes_{SUITE}")] == ["base", "fixed:2"]


def test_a_patch_that_is_trained_again_gets_a_run_of_its_own(config):
    run_bench(config, ["main"], "", silent)
    before = read_rows(config, "main")
    description = config.patch(SUITE) / "patch.json"
    original = description.read_text()
    description.write_text(original + " ")
    run_bench(config, ["main"], "", silent)
    description.write_text(original)
    after = read_rows(config, "main")
    assert len(list((config.work / "runs" / SUITE).glob(f"*/{SUITE}.patch-*"))) == 2
    assert before[2]["patch_sha256"] != after[2]["patch_sha256"]
    assert before[1] == after[1]
    assert before[1]["patch_sha256"] == ""


def test_phases_account_for_every_step(config):
    rows = phases.measure(config, SUITE, [], silent)
    base = next(row for row in rows if row["scheduler"] == "base")
    twice = next(row for row in rows if row["scheduler"] == "fixed:2")
    run_bench(config, ["main"], "", silent)
    steps = {row["scheduler"]: float(row["steps"]) for row in read_rows(config, "main")}
    assert sum(base[f"{phase}_steps"] for phase in PHASES) == pytest.approx(steps["base"])
    assert {base[f"{phase}_rate"] for phase in PHASES} <= {1.0, None}
    assert {twice[f"{phase}_rate"] for phase in PHASES} <= {2.0, None}


def test_violations_and_counterfactuals_of_every_world_model(config):
    notes: list[str] = []
    variant = config.patch(SUITE, "copy")
    shutil.copytree(config.patch(SUITE), variant)
    foretold = violations.measure(config, SUITE, notes, silent)
    compared = counterfactual.measure(config, SUITE, notes, silent)
    decisions = sorted((config.work / "counterfactual" / SUITE).glob("*/*.npz"))
    again = counterfactual.measure(config, SUITE, notes, silent)
    shutil.rmtree(variant)
    assert notes == []
    assert {row["model"] for row in foretold} == {row["model"] for row in compared} == {"default", "copy", "real"}
    assert {row["measure"] for row in foretold} >= {"time_aligned", "cross_track"}
    assert {row["states"] for row in compared} == {"1x states", "accelerated states", "first chunks"}
    assert len(decisions) == len(counterfactual.DRIVEN)
    assert again == compared
    for row in compared:
        assert row["spearman"] is None or -1 <= row["spearman"] <= 1
        assert np.isfinite(row["mean_absolute_error"])


def test_tolerances_are_chosen_on_development_scenes_and_the_papers_rows_run_with_them(config):
    out = config.work / "paper"
    left_out = run_bench(replace(config, out=out), ["paper"], "too early", silent)
    assert "no tolerance has been chosen" in left_out[0]
    left_out = run_bench(replace(config, out=out, episodes=1), ["tuning"], "sup bench aloha", silent)
    assert left_out == [f"tuning, {SUITE}: SuP@0.04, real left out: no {SUITE}_real*.patch in {config.work} fits it"]
    made = json.loads((out / "tuning.json").read_text())["suites"][SUITE]
    assert made["scenes"] == "development"
    assert made["seeds"] == [DEVELOPMENT, DEVELOPMENT]
    measured = [(row["kind"], row["epsilon"]) for row in made["rows"]]
    assert measured == [("mpc", 0.02), ("mpc", 0.03), ("mpc", 0.04), ("SuP", 0.02), ("SuP", 0.03)]
    chosen = [(row["kind"], row["epsilon"]) for row in made["rows"] if row["chosen"] == "yes"]
    assert [kind for kind, _ in chosen] == ["mpc", "SuP"]
    assert run_bench(replace(config, out=out), ["paper"], "sup bench aloha", silent) == []
    made = json.loads((out / "paper.json").read_text())["suites"][SUITE]
    assert made["scenes"] == "evaluation"
    assert [(row["kind"], row["epsilon"]) for row in made["rows"]] == [("base", None), ("fixed:2", None), *chosen]
    assert (out / "paper.md").read_text().count("| stock |") == 4


@pytest.mark.parametrize(
    ("figures", "chosen"),
    [
        ([(0.97, 1.2), (0.965, 1.4), (0.94, 1.8)], 1),
        ([(0.97, 1.4), (0.97, 1.4), (0.97, 1.2)], 0),
        ([(0.0, None), (0.0, None)], 0),
    ],
    ids=["fastest within a point of the best", "the first of equals", "nothing ever succeeds"],
)
def test_the_fastest_of_those_that_are_nearly_as_safe_as_the_safest_is_chosen(figures, chosen):
    rows = [{"success": success, "speedup": speedup} for success, speedup in figures]
    assert tuning.choose(rows) is rows[chosen]


def test_each_part_has_its_own_number_of_episodes_unless_one_is_asked_for():
    config = BenchConfig()
    assert {name: len(part.settled(config).seeds) for name, part in PARTS.items()} == {
        **dict.fromkeys(PARTS, 100),
        "paper": 500,
        "epsilon": 500,
    }
    assert {len(part.settled(replace(config, episodes=7)).seeds) for part in PARTS.values()} == {7}


@pytest.mark.parametrize("first_seed", [0, DEVELOPMENT - 200, DEVELOPMENT + 5, DEMONSTRATIONS, FRESH])
def test_numbers_are_chosen_on_development_scenes_whatever_scenes_are_asked_for(first_seed):
    config = BenchConfig(first_seed=first_seed)
    assert common_scenes(PARTS["tuning"].settled(config).seeds) == "development"
    assert PARTS["paper"].settled(config).seeds[0] == first_seed


def test_an_ablation_pairs_every_row_with_the_patch_as_it_is(config, monkeypatch):
    labels = ("base", "PATCH", "without-guard:PATCH")
    assert set(labels) < set(ablation.schedulers_of(load_patch(config.patch(SUITE))))
    monkeypatch.setattr(ablation, "schedulers_of", lambda patch: labels)
    assert run_bench(config, ["ablation"], "", silent) == []
    rows = {row["scheduler"]: row for row in read_rows(config, "ablation")}
    assert tuple(rows) == labels
    ours = rows["PATCH"]
    assert (float(ours["success_to_ours"]), float(ours["steps_to_ours"])) == (0.0, 1.0)
    if ours["speedup"] and rows["base"]["successes"] == ours["successes"]:
        assert float(rows["base"]["steps_to_ours"]) == pytest.approx(float(ours["speedup"]))
    assert ours["patch_sha256"] == rows["without-guard:PATCH"]["patch_sha256"] != ""


def test_steps_and_success_are_paired_with_the_patch_seed_by_seed():
    def run(*outcomes):
        return [EpisodeResult(seed, success, steps, ()) for seed, (success, steps) in enumerate(outcomes)]

    episodes = {
        "base": run((True, 300), (True, 300), (False, 900)),
        "PATCH": run((True, 100), (True, 100), (True, 150)),
        "without-guard:PATCH": run((True, 110), (True, 130), (False, 900)),
    }
    without = ablation.against_ours(episodes)["without-guard:PATCH"]
    assert without["steps_to_ours"] == pytest.approx(1.2)
    assert 1.1 - 1e-9 <= without["steps_to_ours_low"] < 1.2 < without["steps_to_ours_high"] <= 1.3 + 1e-9
    assert without["success_to_ours"] == pytest.approx(-1 / 3)
    assert without["success_to_ours_low"] < -1 / 3 < without["success_to_ours_high"]


def test_without_any_patch_world_models_are_missing(config, tmp_path):
    bare = replace(config, work=tmp_path, out=tmp_path / "results")
    left_out = run_bench(bare, ["violations", "counterfactual", "ablation"], "", silent)
    assert len(left_out) == 3
    assert left_out[2] == f"ablation, {SUITE}: there is no {bare.patch(SUITE)}"
    assert not bare.out.exists()


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="those of libero are spatial, object"):
        BenchConfig(suites=("kitchen",))
    with pytest.raises(InputError, match="those of aloha are insertion, transfer"):
        BenchConfig(family="aloha", suites=("spatial",))
    with pytest.raises(InputError, match="the parts are main, gripper"):
        run_bench(BenchConfig(), ["everything"], "", silent)


def test_the_command_knows_every_part():
    assert tuple(PARTS) == PART_NAMES


def test_the_command_says_what_it_left_out_and_ends_well(tmp_path, capsys):
    bench("libero", suites=("goal",), parts=("main",), work=tmp_path, out=tmp_path / "results", policy="onnx:no.onnx")
    out, error = capsys.readouterr()
    assert "left out: main, goal: " in error
    assert out == "nothing was measured\n"


def test_a_recorded_command_names_no_folder_of_this_machine():
    words = ["bench", "libero", "--work", "/home/me/runs/libero", "--policy", "onnx:/home/me/act.onnx"]
    assert _command(words) == "sup bench libero --work libero --policy onnx:act.onnx"
    assert _command(["--work", "runs/libero", "--policy", "bundled:{env}"]).startswith("sup --work runs/libero")
