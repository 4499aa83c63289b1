"""The commands as a user types them, on the real simulator with the bundled policy."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest

from speedup_patch.commands.train import train as train_command
from speedup_patch.datasets import read_demonstrations, write_demonstrations
from stand_ins import smooth_demonstrations

TASK = "aloha/insertion"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "wander"
    write_demonstrations(smooth_demonstrations(), path)
    return path


def train(sup, dataset, out, *more):
    quick = ("--chunk", 12, "--rates", "1,2", "--steps", 20, "--world-model", "mlp")
    return sup("train", dataset, "--robot", "aloha", "--out", out, *quick, *more)


@pytest.fixture(scope="module")
def patch(dataset, tmp_path_factory):
    """Trained once for all tests, for that takes longest."""
    path = tmp_path_factory.mktemp("patch") / "my.patch"
    train_command((dataset,), robot="aloha", out=path, chunk=12, rates="1,2", steps=20, world_model="mlp")
    return path


def test_every_command_explains_itself(sup):
    for command in ("demo", "collect", "inspect", "train", "check", "eval"):
        code, out, _ = sup(command, "--help")
        assert code == 0
        assert "usage: sup" in out


def test_train_then_check(sup, dataset, patch):
    assert {file.name for file in patch.iterdir()} >= {"patch.json", "world_model.safetensors", "scheduler.safetensors"}
    assert not patch.with_name("my.patch.training").exists()
    code, out, _ = sup("check", patch, dataset, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["held_out"] is True
    assert [figures["label"] for figures in report["options"]] == ["1x", "2x"]
    assert [figures["speedup"] for figures in report["options"]] == [1.0, 2.0]
    assert sum(figures["chosen_share"] for figures in report["options"]) == pytest.approx(1.0)
    code, out, _ = sup("check", patch, dataset)
    assert "agrees with greedy" in out


def test_inspect_names_the_robot(sup, dataset):
    code, out, _ = sup("inspect", dataset, "--json")
    assert code == 0
    assert "aloha" in json.loads(out)["looks_like"]


@pytest.fixture
def spoilt(tmp_path):
    """Six episodes at 25 Hz, the second of which holds a NaN, and with a column that is no use."""
    path = tmp_path / "spoilt.npz"
    write_demonstrations(replace(smooth_demonstrations(episodes=6, steps=60), control_hz=25.0), path)
    arrays = dict(np.load(path))
    arrays["states"][70, 3] = np.nan
    wide = np.concatenate([np.zeros((len(arrays["states"]), 1), np.float32), arrays["states"]], axis=1)
    np.savez(path, **arrays | {"states": wide})
    return path


SELECT = ("--state", "states[1:]", "--skip-bad")


def test_inspect_reads_what_was_selected_and_says_how_to_go_on(sup, spoilt):
    refused(sup("inspect", spoilt, *SELECT[:2]), "spoilt.npz", "episode 1", "'states'", "row 10", "--skip-bad")
    code, out, error = sup("inspect", spoilt, spoilt, *SELECT, "--episodes", "0:3", "--robot", "aloha", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["episodes"], report["control_hz"], len(report["state"])) == (4, 25.0, 14)
    assert [bad["episode"] for bad in report["left_out"]] == [1, 1]
    assert "left out 2 of 6 episodes" in error
    assert error.count("'states' holds nan in episode 1, row 10, dimension 4") == 2
    words = shlex.split(report["train_command"])
    assert words[:4] == ["sup", "train", str(spoilt), str(spoilt)]
    assert words[4:10] == ["--state", "states[1:]", "--episodes", "0:3", "--skip-bad", "--robot"]


def test_a_patch_remembers_what_it_was_trained_on(sup, spoilt, tmp_path):
    code, out, error = train(sup, spoilt, tmp_path / "p", *SELECT, "--episodes", "0:5", "--json")
    assert code == 0, error
    report = json.loads(out)
    assert (report["data"]["episodes"], report["data"]["left_out"]) == (4, [1])
    assert report["data"]["selection"]["state"] == ["states[1:]"]
    assert report["left_out"][0]["episode"] == 1
    robot = json.loads((tmp_path / "p" / "patch.json").read_text())["robot"]
    assert (robot["control_hz"], robot["arms"][0]["gripper"]["stroke_steps"]) == (25.0, 10)
    code, out, error = sup("check", tmp_path / "p", spoilt, "--skip-bad", "--episodes", "0:5", "--json")
    assert code == 0, error
    assert json.loads(out)["held_out"] is True
    assert [bad["episode"] for bad in json.loads(out)["left_out"]] == [1]
    faster = ("--episodes", "2:", "--hz", 50)
    refused(sup("check", tmp_path / "p", spoilt, *faster), "trained for 25 Hz", "has 50")


def test_bad_selections_are_refused(sup, dataset, spoilt):
    refused(sup("inspect"), "no data set was named")
    refused(sup("inspect", dataset, "--state", "observation.sate"), "observation.sate", "it has 'observation.state'")
    refused(sup("inspect", dataset, "--episodes", "99"), "no episode 99", "its episodes are 0:")
    refused(sup("inspect", dataset, "--tasks", "juggle"), "no episode of task 'juggle'")
    refused(sup("inspect", dataset, "--hz", "0"), "--hz must be a positive number")
    refused(sup("inspect", dataset, spoilt, "--skip-bad"), str(dataset), str(spoilt), "state dimensions: 14 and 15")


def test_collect_and_evaluate_in_the_simulator(sup, tmp_path):
    code, out, error = sup("collect", TASK, "--episodes", 2, "--out", tmp_path / "demos", "--processes", 1, "--json")
    assert code == 0, error
    assert json.loads(out)["episodes"] == len(read_demonstrations(tmp_path / "demos")) == 2
    arguments = ("eval", TASK, "--policy", f"bundled:{TASK}", "--scheduler", "base", "fixed:2")
    arguments = (*arguments, "--out", tmp_path / "run", "--processes", 1, "--json")
    code, out, error = sup(*arguments, "--episodes", 1)
    assert code == 0, error
    code, out, _ = sup(*arguments, "--episodes", 2)
    report = json.loads(out)
    assert report["schedulers"]["base"]["episodes"] == 2
    assert report["schedulers"]["fixed:2"]["rate_mean"] == pytest.approx(2.0)
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert sorted((json.loads(line)["scheduler"], json.loads(line)["seed"]) for line in lines) == [
        ("base", 0),
        ("base", 1),
        ("fixed:2", 0),
        ("fixed:2", 1),
    ]


LATENCY_KEYS = {
    "successes",
    "seconds_mean",
    "speedup_seconds",
    "speedup_seconds_interval",
    "policy_calls",
    "throughput_per_hour",
    "stalled_share",
    "reckoned",
}
STRESS_KEYS = {
    "peak_joint_speed",
    "peak_joint_speed_ratio",
    "peak_joint_speed_rating_ratio",
    "acceleration_99_ratio",
    "jerk_ratio",
    "peak_force_ratio",
}


def test_evaluation_tells_seconds_and_stress(sup, tmp_path):
    arguments = ("eval", TASK, "--policy", f"bundled:{TASK}", "--scheduler", "base", "fixed:4", "--episodes", 1)
    arguments = (*arguments, "--out", tmp_path / "run", "--processes", 1)
    code, out, error = sup(*arguments, "--latency", "0,0.1", "--no-traces", "--json")
    assert code == 0, error
    report = json.loads(out)
    assert report == json.loads((tmp_path / "run" / "results.json").read_text())
    for name, scheduler in report["schedulers"].items():
        assert {key: entry["reckoned"] for key, entry in scheduler["latency"].items()} == {
            "0": False,
            "0.05": True,
            "0.1": False,
            "0.2": True,
        }
        assert all(entry.keys() >= LATENCY_KEYS for entry in scheduler["latency"].values())
        assert scheduler["stress"].keys() >= STRESS_KEYS
        assert all(scheduler["stress"][key] > 0 for key in STRESS_KEYS)
        assert (scheduler["stress"]["peak_joint_speed_ratio"] == 1.0) == (name == "base")
    (waited,) = (
        record
        for record in map(json.loads, (tmp_path / "run" / "episodes.jsonl").read_text().splitlines())
        if record["scheduler"] == "base" and record["latency"] == 0.1
    )
    assert waited["task"] == TASK
    assert waited["stalled"] == 5 * len(waited["decisions"])
    code, out, error = sup(*arguments, "--latency", "0.1")
    assert code == 0, error
    assert "50 ms, reckoned" in out
    assert "peak joint speed" in out
    assert len((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()) == 4
    assert "| fixed:4 |" in (tmp_path / "run" / "table.md").read_text()


def refused(result, *words):
    """Exit code 2, no traceback, and every word in the message."""
    code, _, error = result
    assert code == 2
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) <= 2
    for word in words:
        assert word in error


def test_bad_input_to_train(sup, dataset, patch, tmp_path):
    out = tmp_path / "new.patch"
    refused(sup("train", tmp_path / "nothing", "--robot", "aloha", "--out", out), "nothing")
    refused(sup("train", dataset, "--robot", "hal", "--out", out), "hal", "aloha")
    refused(train(sup, dataset, patch), "exists")
    refused(train(sup, dataset, out, "--preset", "fast"), "fast", "bigym")
    refused(train(sup, dataset, out, "--epsilon", "-1"), "epsilon")
    refused(sup("train", dataset, "--robot", "aloha", "--out", out, "--chunk", 200), "episode 0", "200")
    refused(sup("train", dataset, "--robot", "aloha", "--out", out, "--rates", "one"), "1,2,3,4")
    refused(sup("train", dataset, "--robot", "aloha", "--out", out, "--device", "abacus"), "abacus")
    assert not out.exists()


def test_data_that_is_not_finite_is_refused_where_it_is(sup, tmp_path):
    demonstrations = smooth_demonstrations(episodes=2, steps=30)
    path = tmp_path / "bad.npz"
    write_demonstrations(demonstrations, path)
    arrays = dict(np.load(path))
    arrays["states"][40, 3] = np.nan
    np.savez(path, **arrays)
    refused(sup("train", path, "--robot", "aloha", "--out", tmp_path / "p"), "bad.npz", "episode 1", "10")


def test_bad_input_to_eval(sup, patch, tmp_path):
    run = tmp_path / "run"

    def evaluate(env=TASK, policy=f"bundled:{TASK}", scheduler="base", episodes=1, latency="0"):
        arguments = ("--policy", policy, "--scheduler", scheduler, "--episodes", episodes, "--out", run)
        arguments = (*arguments, f"--latency={latency}")
        return sup("eval", env, *arguments)

    refused(evaluate(env="aloha/juggle"), "aloha/juggle", "aloha/insertion")
    refused(evaluate(policy="oracle"), "oracle", "onnx")
    refused(evaluate(policy="onnx:nowhere.onnx"), "nowhere.onnx")
    refused(evaluate(policy="bundled:aloha/juggle"), "aloha/insertion")
    refused(evaluate(scheduler="warp9"), "warp9", "fixed:RATE")
    refused(evaluate(scheduler="fixed:two"), "two")
    refused(evaluate(scheduler="fixed:0.5"), "at least 1")
    refused(evaluate(scheduler=f"mpc:{tmp_path}"), "not a patch folder")
    refused(evaluate(episodes=0), "episode")
    refused(evaluate(latency="soon"), "soon", "0,0.1")
    refused(evaluate(latency="-1"), "latency", "-1")
    assert not run.exists()
    # The patch was trained for chunks of 12; the policy answers with 24.
    refused(evaluate(scheduler=str(patch)), "24", "--chunk")


def test_a_file_that_is_no_policy_is_refused(sup, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"not a model" * 10)
    refused(sup("eval", TASK, "--policy", f"onnx:{path}", "--scheduler", "base", "--out", tmp_path / "run"), "bad.onnx")
