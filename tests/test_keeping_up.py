"""Joints that lag differently stay on their path at speed, and are pulled no further than was demonstrated."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from small_arm import LAW, SMALL_ARM, demonstrate
from speedup_patch import keeping_up
from speedup_patch.acceleration import accelerate
from speedup_patch.candidates import Retimings, bind, shorten_all
from speedup_patch.errors import InputError
from speedup_patch.evaluation.ablations import change_patch
from speedup_patch.evaluation.schedulers import find_engine
from speedup_patch.keeping_up import KeepingUp
from speedup_patch.limits import read_limits
from speedup_patch.observations import observe, split_observation
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.relabel import predict_counterfactuals
from speedup_patch.retiming import Boldness, PlainLimits, Retiming, RetimingConfig, gripper_delays, paths_at_rate_one
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.engine import Engine, patch_engine
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.scheduler.chooser import chosen_warp
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.warp import cap_rate, uniform_warp
from speedup_patch.world_model.config import WorldModelConfig
from speedup_patch.world_model.servo import ServoWorldModel

N = 24
JOINTS, GRIPPER = [0, 1], 2
EPISODES = demonstrate(episodes=8)
UNLIMITED = np.full(3, np.inf)
MODEL = ServoWorldModel(SMALL_ARM, LAW, -UNLIMITED, UNLIMITED)
LIMITS = read_limits(SMALL_ARM, EPISODES)
KEEP_UP = KeepingUp(MODEL, LIMITS.pulls)
few = settings(max_examples=40, deadline=None)
times, episodes, rates = st.integers(1, 130), st.integers(0, 7), st.floats(1.2, 6.0)


def moment(t=30, episode=0):
    """An observation and the chunk that was demonstrated from there."""
    chosen = EPISODES.episodes[episode]
    return observe(SMALL_ARM, chosen.states[t], chosen.states[t - 1]), chosen.actions[t : t + N]


def hurried(o, chunk, rate, model=MODEL):
    """A warp that knows what the chunk does at rate 1, and the commands that are merely read faster."""
    warp = replace(uniform_warp(len(chunk), rate), path=paths_at_rate_one(model, o[None], chunk[None])[0])
    return warp, accelerate(SMALL_ARM, chunk, warp).actions


def places(o, actions, model=MODEL):
    """Where the joints are before the first command, and after every one."""
    return np.concatenate([o[None, JOINTS], model.rollout(o[None], actions[None])[0][:, JOINTS]])


def late(o, warp, actions, model):
    """How far the joints are, on average, from where the chunk has them at rate 1."""
    wanted = read(warp.path[1:, JOINTS], warp.positions)
    return np.abs(places(o, actions, model)[1:] - wanted).mean()


def beside(o, warp, actions):
    """How far the joints are, on average, from the nearest place on the path that they take at rate 1."""
    path = read(warp.path[1:, JOINTS], np.linspace(0, N, 10 * N + 1))
    return np.linalg.norm(places(o, actions)[1:, None] - path, axis=-1).min(axis=1).mean()


def read(path, at):
    return np.stack([np.interp(at, np.arange(len(path)), joint) for joint in path.T], axis=1)


@few
@given(times, episodes, st.floats(1.5, 4.0))
def test_at_speed_joints_of_different_lag_are_where_they_are_at_rate_one(t, episode, rate):
    free = LAW._replace(**{name: np.zeros(3) for name in ("share", "grip", "limit")}, damping=np.full(3, 1.9))
    model = ServoWorldModel(SMALL_ARM, free._replace(stiffness=np.array([0.25, 1.1, 0.25])), -UNLIMITED, UNLIMITED)
    o, chunk = moment(t, episode)
    warp, actions = hurried(o, chunk, rate, model)
    kept = KeepingUp(model, (1.0,) * 3).pull(warp, actions)
    assert late(o, warp, kept, model) < late(o, warp, actions, model)
    np.testing.assert_array_equal(kept[:, GRIPPER], actions[:, GRIPPER])


@pytest.mark.parametrize("rate", [1.5, 2.0, 3.0, 4.0])
def test_joints_with_friction_are_nearer_to_their_path_too(rate):
    distances = []
    for t in range(1, 130, 8):
        for episode in range(len(EPISODES)):
            o, chunk = moment(t, episode)
            warp, actions = hurried(o, chunk, rate)
            distances.append([beside(o, warp, each) for each in (actions, KEEP_UP.pull(warp, actions))])
    plain, kept = np.mean(distances, axis=0)
    assert kept < plain


@few
@given(times, episodes, rates, st.floats(0.1, 2.0))
def test_no_joint_is_pulled_further_than_demonstrated_at_that_rate(t, episode, rate, share):
    o, chunk = moment(t, episode)
    warp, actions = hurried(o, chunk, rate)
    pulls = share * np.array(LIMITS.pulls)
    kept = KeepingUp(MODEL, tuple(pulls)).pull(warp, actions)
    before = places(o, kept)[:-1]
    allowed = np.maximum(np.diff(warp.positions, prepend=0.0), 1.0)[:, None] * pulls[JOINTS]
    own = np.abs(actions[:, JOINTS] - before)
    assert (np.abs(kept[:, JOINTS] - before) <= np.maximum(allowed, own) + 1e-6).all()


def test_where_pulls_do_not_suffice_all_joints_get_the_same_share_of_their_way():
    state, way = EPISODES.episodes[0].states[30], np.array([0.4, 0.2])
    o, chunk = observe(SMALL_ARM, state, state), np.tile(state[:3], (N, 1))
    warp, actions = hurried(o, chunk, 3.0)
    path = warp.path.copy()
    path[2:, JOINTS] = state[JOINTS] + way  # far from where the arm is
    kept = KeepingUp(MODEL, (1e-3,) * 3).pull(replace(warp, path=path), actions)
    done = (places(o, kept)[-1] - state[JOINTS]) / way
    assert 0 < done[0] < 0.2
    assert done[0] == pytest.approx(done[1], rel=0.15)


def test_a_joint_that_is_nearly_in_its_place_does_not_hold_the_others_up():
    state = EPISODES.episodes[0].states[30]
    o = observe(SMALL_ARM, state, state - [0.01, 0.0, 0.0, 0.0])  # the shoulder runs on
    chunk = np.tile(state[:3], (N, 1))
    chunk[:, 1] += 0.1
    warp, actions = hurried(o, chunk, 3.0)
    path = warp.path.copy()
    path[2:, 0] = path[1, 0] - 1e-4  # and should be a hair behind
    warp = replace(warp, path=path)
    moved = places(o, KEEP_UP.pull(warp, actions))[:, 1] - state[1]
    assert moved[1] > 0.5 * (path[1 + round(warp.positions[0]), 1] - state[1])


@few
@given(
    hnp.arrays(np.float64, (N, 3), elements=st.floats(-50, 50)),
    hnp.arrays(np.float64, (2, 4), elements=st.floats(-4, 4)),
    rates,
)
def test_commands_are_finite_and_within_limits_whatever_is_asked(chunk, states, rate):
    warp, actions = hurried(observe(SMALL_ARM, *states), chunk, rate)
    for pulls in (LIMITS.pulls, (0.0,) * 3):
        kept = KeepingUp(MODEL, pulls).pull(warp, actions)[:, JOINTS]
        assert np.isfinite(kept).all()
        assert (SMALL_ARM.action_low[JOINTS] <= kept).all()
        assert (kept <= SMALL_ARM.action_high[JOINTS]).all()


def test_what_is_not_shortened_or_foreseen_comes_back_bit_for_bit():
    o, chunk = moment()
    for rate in (1.0, 2.0):
        warp, actions = hurried(o, chunk, rate)
        unforeseen = replace(warp, path=None)
        assert KEEP_UP.pull(unforeseen, actions) is actions
    assert KEEP_UP.pull(hurried(o, chunk, 1.0)[0], chunk) is chunk


def test_the_callers_commands_are_left_alone():
    warp, actions = hurried(*moment(), 3.0)
    given_commands = actions.copy()
    KEEP_UP.pull(warp, actions)
    np.testing.assert_array_equal(actions, given_commands)


def accelerator(keep_up, **more):
    retiming = Retiming(SMALL_ARM, LIMITS, RetimingConfig(slack=0.0, leave_rest=False))
    scheduler = PlainLimits(MODEL, retiming, Boldness(6.0, scale=4.0))
    return ChunkAccelerator(Engine(SMALL_ARM, lambda: scheduler, world_model=MODEL, keep_up=keep_up), **more)


@pytest.mark.parametrize("max_rate", [None, 2.0, 1.0])
def test_what_is_sent_is_what_is_foretold_and_no_rate_is_exceeded(max_rate):
    chosen = EPISODES.episodes[0]
    chunk, state, previous = chosen.actions[30 : 30 + N], chosen.states[30], chosen.states[29]
    with_it, without = (accelerator(keep_up, max_rate=max_rate) for keep_up in (KEEP_UP, None))
    kept, plain = (each.shorten(chunk, state, previous) for each in (with_it, without))
    np.testing.assert_array_equal(kept.positions, plain.positions)
    assert np.diff(kept.positions, prepend=0.0).max() <= (max_rate or RetimingConfig().joint_rate) + 1e-6
    assert np.array_equal(kept.actions, plain.actions) == (max_rate == 1.0)
    with_it.prepare()
    ahead = MODEL.rollout(observe(SMALL_ARM, state, previous)[None], kept.actions[None])[0]
    np.testing.assert_allclose(with_it._velocity, ahead[-1].astype(np.float64) - ahead[-2], atol=1e-9)


def test_a_cap_keeps_the_path():
    o, chunk = moment()
    warp, _ = hurried(o, chunk, 4.0)
    assert cap_rate(warp, 2.0).path is warp.path
    assert split_observation(o)[0] == pytest.approx(warp.path[1])


def test_grippers_are_led_for_an_arm_without_lag_where_it_is_kept_up():
    for limits, config, without_lag in (
        (LIMITS, RetimingConfig(), True),
        (LIMITS, RetimingConfig(keep_up=False), False),
        (replace(LIMITS, pulls=()), RetimingConfig(), False),
    ):
        assert Retiming(SMALL_ARM, limits, config).delays == gripper_delays(SMALL_ARM, limits, without_lag)


def test_many_chunks_are_kept_up_as_each_would_be(monkeypatch):
    monkeypatch.setattr(keeping_up, "CHUNKS_TOGETHER", 3)
    moments = [moment(t, episode) for t in (5, 40, 90) for episode in (0, 3)]
    each = [hurried(o, chunk, rate) for (o, chunk), rate in zip(moments, (1.0, 1.3, 2.0, 2.0, 3.7, 6.0), strict=True)]
    commands, positions = np.zeros((len(each), N, 3)), np.zeros((len(each), N))
    for row, (warp, actions) in enumerate(each):
        commands[row, : len(warp)], positions[row] = actions, warp.positions[-1]
        positions[row, : len(warp)] = warp.positions
    together = KEEP_UP.pull_all(np.stack([warp.path for warp, _ in each]), positions, commands)
    for made, (warp, actions) in zip(together, each, strict=True):
        np.testing.assert_allclose(made[: len(warp)], KEEP_UP.pull(warp, actions), atol=1e-12)


def test_robots_that_share_a_patch_do_not_disturb_each_other():
    hurries = [hurried(*moment(t, episode), 3.0) for t in (5, 40, 90, 120) for episode in range(4)]
    alone = [KEEP_UP.pull(*each) for each in hurries]
    with ThreadPoolExecutor(4) as threads:
        for made, wanted in zip(threads.map(lambda each: KEEP_UP.pull(*each), 20 * hurries), 20 * alone, strict=True):
            np.testing.assert_array_equal(made, wanted)


def test_what_is_foreseen_of_an_option_is_what_it_will_send():
    o, chunk = moment()
    candidates = bind(Retimings(), SMALL_ARM, LIMITS)
    foreseen = predict_counterfactuals(MODEL, o[None], chunk[None], candidates, "in_step", LIMITS)
    for option in range(len(candidates.labels)):
        warp = chosen_warp(foreseen.options, option, candidates, N)
        sent = KEEP_UP.pull(warp, accelerate(SMALL_ARM, chunk, warp, candidates.choices.merging).actions)
        end = MODEL.rollout(o[None], sent[None])[0, -1]
        np.testing.assert_allclose(foreseen.next_observations[0, option, : len(end)], end, atol=1e-9)


@pytest.fixture(scope="module", params=["servo", "gru"])
def folder(tmp_path_factory, request):
    """A patch that retimes, trained for a moment; its world model can keep joints up, or cannot."""
    loop = LoopConfig(steps=20, batch_size=64, evaluate_every=20)
    config = TrainingConfig(
        chunk_length=N,
        states=100,
        world_model=WorldModelConfig(kind=request.param, hidden=16, loop=loop),
        scheduler=SchedulerConfig(hidden=16, loop=loop),
    )
    path = tmp_path_factory.mktemp("patches") / f"{request.param}.patch"
    train_patch(EPISODES, SMALL_ARM, config, device=torch.device("cpu")).save(path)
    return path


def test_only_a_patch_with_servos_that_retimes_keeps_up(folder):
    servo = folder.stem == "servo"
    assert bool(load_patch(folder).limits.pulls) == servo
    keeping = ("", "dwell+", "mpc:", "retime:", "tracked:2:", "without-gripper-lead:", "without-retiming:")
    not_keeping = ("speedcap:", "without-path-tracking:") if servo else ("speedcap:",)
    for spec in (*keeping, *not_keeping):
        assert (find_engine(f"{spec}{folder}", SMALL_ARM).keep_up is not None) == (servo and spec in keeping), spec


def test_joints_can_be_led_instead(folder):
    change = "without-path-tracking+with-joint-lead=on" if folder.stem == "servo" else "with-joint-lead=on"
    lags, engine = load_patch(folder).limits.lags, find_engine(f"{change}:{folder}", SMALL_ARM)
    assert engine.keep_up is None
    delays = engine.new_scheduler().schedule(*moment()).delays
    assert {action: delay for action, delay in delays.items() if action != GRIPPER} == {1: lags[1]}
    assert lags[0] == 0.0 < lags[1]  # the shoulder is stiff and hardly damped: it answers at once


def test_a_patch_from_before_lags_were_read_cannot_lead_joints(folder, tmp_path):
    older = tmp_path / "older.patch"
    shutil.copytree(folder, older)
    document = json.loads((older / "patch.json").read_text())
    del document["limits"]["lags"]
    (older / "patch.json").write_text(json.dumps(document))
    change = "without-path-tracking+with-joint-lead=on" if folder.stem == "servo" else "with-joint-lead=on"
    with pytest.raises(InputError, match="only joints with measured lags"):
        find_engine(f"{change}:{older}", SMALL_ARM)


def test_without_it_the_largest_rate_stays(folder):
    patch = load_patch(folder)
    engine = change_patch(patch, ["without-path-tracking"] if patch.limits.pulls else []).engine()
    o, chunk = moment()
    warp = engine.new_scheduler().schedule(o, chunk)
    np.testing.assert_array_equal(warp.positions, patch_engine(patch).new_scheduler().schedule(o, chunk).positions)


def test_a_patch_from_before_runs_as_it_did(folder, tmp_path):
    older = tmp_path / "older.patch"
    shutil.copytree(folder, older)
    for file, part in (("patch.json", ("limits",)), ("scheduler.json", ("choices", "common"))):
        document = json.loads((older / file).read_text())
        holder = document
        for key in part:
            holder = holder[key]
        for key in ("pulls", "keep_up", "joint_rate"):
            holder.pop(key, None)
        (older / file).write_text(json.dumps(document))
    patch = load_patch(older)
    assert patch.limits == replace(load_patch(folder).limits, pulls=())
    assert patch_engine(patch).keep_up is None
    assert patch.candidates.delays == gripper_delays(SMALL_ARM, patch.limits)
    state = EPISODES.episodes[0].states[30]
    still = np.tile(observe(SMALL_ARM, state, state)[: len(moment()[0]) // 2], (1, N + 2, 1))
    chunks = np.tile(state[:3], (1, N, 1))
    windows = [
        np.diff(shorten_all(SMALL_ARM, load_patch(path).candidates, still, chunks).positions, axis=-1).max()
        for path in (older, folder)
    ]
    assert windows == pytest.approx([6.0, 4.0 if folder.stem == "servo" else 6.0])
