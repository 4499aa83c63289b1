"""Every rule can be left out by itself, and nothing else changes with it."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sample_motions
import small_arm
from small_arm import SMALL_ARM
from speedup_patch.acceleration import PLAIN, Merging, accelerate
from speedup_patch.bench.ablation import schedulers_of
from speedup_patch.candidates import Rates, Retimings
from speedup_patch.errors import InputError
from speedup_patch.evaluation.ablations import change_patch
from speedup_patch.evaluation.rules import RULES, Variant, rules_of
from speedup_patch.evaluation.schedulers import find_engine
from speedup_patch.evaluation.specs import SchedulerSpec, parse_spec
from speedup_patch.keeping_up import find_keeping_up
from speedup_patch.observations import observe
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.retiming import RetimingConfig, paths_at_rate_one
from speedup_patch.robots import ROBOTS
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.warp import uniform_warp
from speedup_patch.world_model.config import WorldModelConfig

N = 24
PANDA = ROBOTS["panda_libero"]
LOOP = LoopConfig(steps=10, batch_size=32, evaluate_every=10)


def train(demonstrations, robot, folder, choices, kind):
    config = TrainingConfig(
        chunk_length=N,
        choices=choices,
        states=100,
        world_model=WorldModelConfig(kind=kind, hidden=8, layers=1, loop=LOOP),
        scheduler=SchedulerConfig(hidden=8, loop=LOOP),
    )
    train_patch(demonstrations, robot, config, device=torch.device("cpu")).save(folder)
    return folder


@pytest.fixture(scope="module")
def servo_folder(tmp_path_factory):
    """A patch of an arm whose joints are servos."""
    folder = tmp_path_factory.mktemp("patches") / "servo.patch"
    return train(small_arm.demonstrate(), SMALL_ARM, folder, Retimings(), "servo")


@pytest.fixture(scope="module")
def rates_folder(tmp_path_factory):
    """A patch that chooses constant rates."""
    folder = tmp_path_factory.mktemp("patches") / "rates.patch"
    return train(small_arm.demonstrate(), SMALL_ARM, folder, Rates(), "servo")


@pytest.fixture(scope="module")
def delta_patch(tmp_path_factory):
    """A patch of an arm that is commanded by deltas, which knows all that can be measured of one."""
    folder = tmp_path_factory.mktemp("patches") / "delta.patch"
    patch = load_patch(train(sample_motions.demonstrate(PANDA), PANDA, folder, Retimings(), "gru"))
    known = {"gain": 0.01, "axis_lags": (2.0, 1.0, 1.0), "axis_gains": (0.01,) * 3}
    arms = tuple(replace(arm, **known) for arm in patch.limits.arms)
    strokes = {"letting_go": 7.0}
    grippers = tuple(
        replace(gripper, **strokes, opening=jumping(gripper.opening), closing=jumping(gripper.closing))
        for gripper in patch.limits.grippers
    )
    return replace(patch, limits=replace(patch.limits, arms=arms, grippers=grippers))


def jumping(stroke):
    return replace(stroke, jumps=True, approach=0.003)


def small_arm_moment(t=30):
    episode = small_arm.demonstrate().episodes[0]
    return observe(SMALL_ARM, episode.states[t], episode.states[t - 1]), episode.actions[t : t + N]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("base", SchedulerSpec("base")),
        ("dwell+fixed:2.5", SchedulerSpec("fixed", rate=2.5, dwell=True)),
        ("runs/my.patch", SchedulerSpec("patch", "runs/my.patch")),
        ("dwell+runs/a+b.patch", SchedulerSpec("patch", "runs/a+b.patch", dwell=True)),
        ("dwell+mpc:my.patch", SchedulerSpec("mpc", "my.patch", dwell=True)),
        ("tracked:3:my.patch", SchedulerSpec("tracked", "my.patch", 3.0)),
        ("without-guard:a:b", SchedulerSpec("patch", "a:b", changes=("without-guard",))),
        (
            "without-guard+with-overdrive=1.25+mpc:my.patch",
            SchedulerSpec("mpc", "my.patch", changes=("without-guard", "with-overdrive=1.25")),
        ),
        ("without-gripper-lead+tracked:2:p", SchedulerSpec("tracked", "p", 2.0, ("without-gripper-lead",))),
    ],
)
def test_a_text_is_taken_apart(text, wanted):
    assert parse_spec(text) == wanted


@pytest.mark.parametrize("text", ["nonsense", "mpcc:my.patch", "guard+mpc:my.patch", "tracked:3", "mpc:", "fixed:"])
def test_what_names_no_scheduler_is_answered_with_what_does(text):
    with pytest.raises(InputError, match=r"unknown scheduler .* base, fixed:RATE, a PATCH folder"):
        find_engine(text, SMALL_ARM)


def settings_of(variant):
    """Everything that a variant runs by, by name."""
    choices, limits = variant.patch.choices, variant.patch.limits
    found = {f"retiming.{name}": value for name, value in asdict(choices.common).items()}
    found["levels"] = choices.levels
    found |= {f"arm.{name}": value for arm in limits.arms for name, value in asdict(arm).items()}
    found |= {f"gripper.{name}": value for gripper in limits.grippers for name, value in asdict(gripper).items()}
    found |= {f"watch.{name}": value for name, value in asdict(limits.tuning.watch).items()}
    found |= {name: getattr(variant, name) for name in ("guard", "caution", "without_cautions", "second_opinion")}
    return found


CHANGED = {
    "retiming": {"retiming.constant", "levels"},
    "path-tracking": {"retiming.keep_up"},
    "largest-rate": {"retiming.joint_rate"},
    "gripper-lead": {"retiming.gripper_lead"},
    "gripper-limit": {"retiming.gripper_limit"},
    "settle": {"retiming.settle"},
    "change-limit": {"retiming.change"},
    "slack": {"retiming.slack"},
    "leave-rest": {"retiming.leave_rest"},
    "straight-cuts": {"retiming.straight"},
    "turn-limit": {"retiming.turn"},
    "momentum": {"retiming.momentum"},
    "guard": {"guard"},
    "second": {"second_opinion"},
    "caution": {"caution"},
    "blocked": {"watch.least_displacement", "watch.least_command"},
    "blocked-predicted": {"watch.least_displacement"},
    "blocked-commanded": {"watch.least_command"},
    "short-attempts": {"watch.attempt_seconds"},
    "pauses": {"watch.rush"},
    "early-gripper": {"without_cautions"},
    "remaining-displacement": {"without_cautions"},
    "unbroken-gripper": {"without_cautions"},
    "coasting": {"arm.axis_lags", "arm.axis_gains"},
    "release-delay": {"gripper.letting_go"},
}
"""What each rule consists of: that and nothing else changes without it."""


def test_every_rule_is_left_out_alone(servo_folder, delta_patch):
    tried = set()
    for patch in (load_patch(servo_folder), delta_patch):
        whole = settings_of(Variant(patch))
        for rule in rules_of(patch):
            without = settings_of(change_patch(patch, [f"without-{rule}"]))
            assert {name for name in whole if whole[name] != without[name]} == CHANGED[rule], rule
            tried.add(rule)
    assert tried == set(RULES) == set(CHANGED)


def test_what_watches_can_be_left_out_of_an_engine(delta_patch):
    whole = Variant(delta_patch).engine()
    assert None not in (whole.guard, whole.caution, whole.new_scheduler().second)
    assert change_patch(delta_patch, ["without-guard"]).engine().guard is None
    assert change_patch(delta_patch, ["without-caution"]).engine().caution is None
    assert change_patch(delta_patch, ["without-second"]).engine().new_scheduler().second is None
    assert change_patch(delta_patch, ["without-straight-cuts"]).engine().merging == Merging(straight=False)
    unaware = change_patch(delta_patch, ["without-coasting"]).engine().caution
    assert [arm.axis_lags for arm in unaware.limits.arms] == [()]


@pytest.mark.parametrize("rule", ["early-gripper", "remaining-displacement", "unbroken-gripper"])
def test_a_switch_of_what_watches_is_off_alone(delta_patch, rule):
    whole, without = (
        Variant(delta_patch).engine().caution,
        change_patch(delta_patch, [f"without-{rule}"]).engine().caution,
    )
    assert without == replace(whole, **{rule.replace("-", "_"): False})


def test_without_retiming_all_else_stays(servo_folder, delta_patch):
    for patch in (load_patch(servo_folder), delta_patch):
        ours, constant = patch.candidates, change_patch(patch, ["without-retiming"]).patch.candidates
        assert constant.delays == ours.delays
        assert constant.choices.merging == ours.choices.merging
        engine, whole = (change_patch(patch, changes).engine() for changes in (["without-retiming"], []))
        assert (engine.keep_up is None, engine.caution) == (whole.keep_up is None, whole.caution)
        assert (engine.new_scheduler().second is None) == (whole.new_scheduler().second is None)


def test_without_retiming_a_chunk_runs_at_one_rate(delta_patch):
    candidates = change_patch(delta_patch, ["without-retiming", "with-slack=0"]).patch.candidates
    episode = sample_motions.demonstrate(PANDA).episodes[0]
    o, chunk = observe(PANDA, episode.states[20], episode.states[19]), episode.actions[20 : 20 + N].astype(float)
    chunk[:, :6] *= 0.6 / np.abs(chunk[:, :6]).max()  # at 2 / 0.6 overdrive cuts the largest rate
    paths = paths_at_rate_one(delta_patch.world_model, o[None], chunk[None])
    rates = []
    for positions in candidates.positions(paths, chunk[None])[0]:
        windows = np.diff(positions, prepend=0.0)[: np.argmax(positions == positions[-1]) + 1]
        np.testing.assert_allclose(windows, windows[0])
        rates.append(windows[0])
    assert rates[:2] == pytest.approx([1.0, 2.0])
    assert 2.0 < max(rates) <= 2.0 / 0.6 + 1e-9
    assert candidates.carried(paths, chunk[None]) is not None


def test_constant_rates_with_path_tracking_send_what_the_servo_model_says(servo_folder):
    patch, engine = load_patch(servo_folder), find_engine(f"tracked:3:{servo_folder}", SMALL_ARM)
    assert (engine.guard, engine.caution, engine.merging) == (None, None, PLAIN)
    o, chunk = small_arm_moment()
    path = paths_at_rate_one(patch.world_model, o[None], chunk[None])[0]
    warp = replace(uniform_warp(N, 3.0), path=path, delays=patch.candidates.delays)
    keep_up = find_keeping_up(patch.world_model, patch.limits, patch.choices)
    wanted = keep_up.pull(warp, accelerate(SMALL_ARM, chunk, warp).actions)
    episode = small_arm.demonstrate().episodes[0]
    sent = ChunkAccelerator(engine).shorten(chunk, episode.states[30], episode.states[29]).actions
    np.testing.assert_allclose(sent, np.clip(wanted, SMALL_ARM.action_low, SMALL_ARM.action_high))
    plain = find_engine(f"without-path-tracking+without-gripper-lead+tracked:3:{servo_folder}", SMALL_ARM)
    merely_faster = ChunkAccelerator(plain).shorten(chunk, episode.states[30], episode.states[29]).actions
    np.testing.assert_allclose(merely_faster, accelerate(SMALL_ARM, chunk, uniform_warp(N, 3.0)).actions)
    assert not np.allclose(sent, merely_faster)


def test_changes_reach_mpc_and_the_plain_limits(servo_folder):
    changes = "without-gripper-lead+with-epsilon=0.5"
    mpc = find_engine(f"{changes}+mpc:{servo_folder}", SMALL_ARM).new_scheduler()
    assert (mpc.epsilon, dict(mpc.candidates.delays)) == (0.5, {})
    limits = find_engine(f"{changes}+retime:{servo_folder}", SMALL_ARM).new_scheduler()
    assert limits.retiming.config == RetimingConfig(gripper_lead=False)


def test_a_rule_that_a_patch_does_not_follow_is_not_left_out_of_it(servo_folder, rates_folder, delta_patch):
    for rule in ("momentum", "caution", "coasting", "second"):
        with pytest.raises(InputError, match=r"is no rule of this patch; its rules are retiming, path-tracking"):
            find_engine(f"without-{rule}:{servo_folder}", SMALL_ARM)
    with pytest.raises(InputError, match=r"without-haste: that is no rule; its rules are guard$"):
        find_engine(f"without-haste:{rates_folder}", SMALL_ARM)
    with pytest.raises(InputError, match="is no rule of this patch"):
        change_patch(delta_patch, ["without-path-tracking"])
    with pytest.raises(InputError, match="nothing to change"):
        find_engine(f"without-guard+speedcap:{servo_folder}", SMALL_ARM)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("with-haste=1", "'haste' is no setting of this patch; its settings are epsilon, measure, overdrive"),
        ("with-overdrive=fast", "'fast' is not a number"),
        ("with-overdrive=0.5", "retiming needs overdrive"),
        ("with-keep-up=1", "this setting is on or off"),
        ("with-epsilon=-1", "epsilon must be positive"),
        ("with-measure=eye", "a measure is one of in_step"),
        ("with-joint-lead=on", "without-path-tracking"),
        ("with-short-attempts=2.5", "'2.5' is not a whole number"),
    ],
)
def test_a_wrong_setting_is_answered_with_what_would_be_right(servo_folder, change, message):
    with pytest.raises(InputError, match=message):
        find_engine(f"{change}:{servo_folder}", SMALL_ARM)


def test_settings_are_changed_one_after_the_other(servo_folder):
    patch = load_patch(servo_folder)
    changed = change_patch(patch, ["with-overdrive=1.25", "with-leave-rest=off", "with-measure=cross_track"]).patch
    assert changed.choices.common == replace(patch.choices.common, overdrive=1.25, leave_rest=False)
    tuned = change_patch(patch, ["with-rush=2", "with-jumping=1", "with-short-attempts=5"]).patch.limits.tuning
    assert (tuned.watch.rush, tuned.watch.short_attempts, tuned.deviation.jumping) == (2.0, 5, 1.0)
    assert (changed.measure, patch.measure) == ("cross_track", "in_step")


def test_the_bench_compares_what_a_patch_follows_and_nothing_twice(servo_folder, rates_folder, delta_patch):
    for patch in (load_patch(servo_folder), load_patch(rates_folder), delta_patch):
        compared = schedulers_of(patch)
        assert compared[:2] == ("base", "PATCH")
        assert len(set(compared)) == len(compared)
        assert {f"without-{rule}:PATCH" for rule in rules_of(patch)} <= set(compared)
        assert ("with-overdrive=1.25:PATCH" in compared) == (patch is delta_patch)
    for spec in schedulers_of(load_patch(servo_folder)):
        find_engine(spec.replace("PATCH", str(servo_folder)), SMALL_ARM)


def test_the_page_lists_every_rule_as_the_code_names_it():
    page = (Path(__file__).parents[2] / "docs" / "retiming.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `without-")]
    assert listed == [f"| `without-{name}` | {rule.meaning} |" for name, rule in RULES.items()]
