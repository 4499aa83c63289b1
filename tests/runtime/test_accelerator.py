"""A shortened chunk is finite and within limits; whenever in doubt, the original chunk comes back."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from speedup_patch.baselines import FixedRate, GripperDwell, OneRatePerChunk
from speedup_patch.candidates import Rates, Retimings
from speedup_patch.errors import DecisionError, InputError
from speedup_patch.evaluation.schedulers import find_engine
from speedup_patch.observations import observe
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.robots import ALOHA, ActionGroup
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.engine import Engine, load_engine, patch_engine
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.scheduler.chooser import LearnedScheduler
from speedup_patch.warp import uniform_warp
from stand_ins import DELTA_ROBOT, RememberingWorldModel, smooth_demonstrations

N = 12
EPISODE = smooth_demonstrations(episodes=12).episodes[0]


def moment(t=20):
    return EPISODE.actions[t : t + N], EPISODE.states[t], EPISODE.states[t - 1]


def fixed(rate, robot=ALOHA, world_model=None, **more):
    return ChunkAccelerator(Engine(robot, lambda: OneRatePerChunk(FixedRate(rate)), world_model=world_model), **more)


@pytest.fixture(scope="module")
def engine(patch_folder):
    return load_engine(patch_folder)


def test_a_familiar_chunk_is_shortened_or_kept(engine):
    accelerator = ChunkAccelerator(engine)
    result = accelerator.shorten(*moment())
    assert result.reason is None
    assert 2 <= len(result.actions) <= N
    assert result.rate == N / len(result.actions)
    assert np.array_equal(result.chunk, moment()[0])
    assert len(result.positions) == len(result.actions)
    assert result.positions[-1] == N


@pytest.mark.parametrize("rate", [1.0, 1.5, 2.0, 3.0])
def test_max_rate_binds_at_once(rate):
    accelerator = fixed(4.0)
    assert accelerator.shorten(*moment()).rate == 4
    accelerator.max_rate = rate
    assert accelerator.shorten(*moment()).rate == pytest.approx(rate)


def test_rate_one_is_the_policys_chunk_bit_for_bit(engine):
    beyond_limits = np.full((N, 14), 9.0)
    accelerator = ChunkAccelerator(dataclasses.replace(engine, guard=None), max_rate=1.0)
    chunk, state, previous = moment()
    assert np.array_equal(accelerator.shorten(chunk, state, previous).actions, chunk)
    assert np.array_equal(accelerator.shorten(beyond_limits, state, previous).actions, beyond_limits)


@pytest.mark.parametrize("rate", [0.5, np.nan, np.inf, -1.0])
def test_a_max_rate_that_is_none_is_refused(rate):
    with pytest.raises(InputError, match="max_rate"):
        fixed(2.0).max_rate = rate


def test_every_rate_violating_runs_the_original(strict_folder):
    accelerator = ChunkAccelerator(load_engine(strict_folder))
    chunk, state, previous = moment()
    result = accelerator.shorten(chunk, state, previous)
    assert np.array_equal(result.actions, chunk)
    assert result.reason == "every rate violates"
    assert accelerator.fallbacks == {"every rate violates": 1}


class BrokenScheduler:
    """A stand-in scheduler that fails as it is told to."""

    def __init__(self, error):
        self.error = error

    def schedule(self, observation, chunk, before=None):
        raise self.error

    def reset(self):
        pass


RUN_TIME = [DecisionError("no plan"), np.linalg.LinAlgError("no plan"), FloatingPointError("no plan"), MemoryError()]
MISTAKES = [TypeError, AttributeError, KeyError, IndexError, AssertionError, ValueError, RuntimeError, NameError]


@pytest.mark.parametrize("error", RUN_TIME, ids=lambda error: type(error).__name__)
def test_what_can_happen_at_run_time_runs_the_original_and_says_so(error, caplog):
    accelerator = ChunkAccelerator(Engine(ALOHA, lambda: BrokenScheduler(error)))
    chunk, state, previous = moment()
    result = accelerator.shorten(chunk, state, previous)
    assert np.array_equal(result.actions, chunk)
    assert (result.reason, result.error) == ("decision failed", error)
    assert type(error).__name__ in caplog.text


@pytest.mark.parametrize("error", MISTAKES, ids=lambda error: error.__name__)
def test_a_programmers_mistake_is_never_a_fallback(error, patch_folder):
    accelerator = ChunkAccelerator(Engine(ALOHA, lambda: BrokenScheduler(error("a slip"))))
    with pytest.raises(error, match="a slip"):
        accelerator.shorten(*moment())
    assert accelerator.fallbacks == {}


class TwoArguments:
    """As documented: a scheduler that does not ask for the commands before."""

    def schedule(self, observation, chunk):
        return uniform_warp(len(chunk), 2.0)

    def reset(self):
        pass


class WrongScheduler(TwoArguments):
    def schedule(self, chunk):
        return uniform_warp(len(chunk), 2.0)


class NoReset:
    schedule = TwoArguments.schedule


class WrongChooser:
    def choose(self, observations, chunks, before):
        return np.full(len(chunks), 2.0)


class WrongWorldModel(RememberingWorldModel):
    def rollout(self, observations, actions):
        return super().rollout(observations, actions)


def test_a_scheduler_may_do_without_the_commands_before():
    for scheduler in (TwoArguments(), GripperDwell(TwoArguments(), ALOHA)):
        accelerator = ChunkAccelerator(Engine(ALOHA, lambda scheduler=scheduler: scheduler))
        assert len(accelerator.shorten(*moment()).actions) <= N
        assert accelerator.fallbacks == {}


@pytest.mark.parametrize(
    ("attach", "message"),
    [
        (
            lambda: ChunkAccelerator(Engine(ALOHA, WrongScheduler)),
            r"WrongScheduler\.schedule\(chunk\) must take schedule",
        ),
        (lambda: ChunkAccelerator(Engine(ALOHA, NoReset)), r"reset\(\) is expected here; NoReset has no reset"),
        (lambda: ChunkAccelerator(Engine(ALOHA, lambda: TwoArguments)), "not the class TwoArguments itself"),
        (lambda: ChunkAccelerator(Engine(ALOHA, lambda: FixedRate(2.0))), "FixedRate has no schedule"),
        (lambda: GripperDwell(WrongScheduler(), ALOHA), "before may be left out"),
        (lambda: OneRatePerChunk(WrongChooser()), r"must take choose\(observations, chunks\)"),
        (lambda: OneRatePerChunk(WrongChooser), "not the class WrongChooser itself"),
        (lambda: Engine(ALOHA, TwoArguments()), "new_scheduler must be a function"),
        (lambda: Engine(ALOHA, TwoArguments, world_model=WrongWorldModel()), r"must take rollout\("),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_attached(attach, message, unchecked):
    with pytest.raises(InputError, match=message):
        attach()


def test_a_late_decision_is_not_used():
    accelerator = fixed(2.0, deadline=1e-9)
    chunk, state, previous = moment()
    result = accelerator.shorten(chunk, state, previous)
    assert np.array_equal(result.actions, chunk)
    assert result.reason == "late decision"


@pytest.mark.parametrize("dimension", [0, 13])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nothing_that_is_not_finite_passes(engine, dimension, value):
    chunk, state, previous = (array.copy() for array in moment())
    chunk[3, dimension] = value
    with pytest.raises(InputError, match=ALOHA.action_names[dimension]):
        ChunkAccelerator(engine).shorten(chunk, state, previous)
    for name in ("state", "previous_state"):
        broken = {"state": state.copy(), "previous_state": previous.copy()}
        broken[name][dimension] = value
        with pytest.raises(InputError, match=f"{name}.*{ALOHA.state_names[dimension]}"):
            ChunkAccelerator(engine).shorten(moment()[0], **broken)


@settings(max_examples=60, deadline=None)
@given(
    chunk=hnp.arrays(np.float64, (8, 7), elements=st.floats(-1e6, 1e6)),
    rate=st.floats(1.0, 8.0),
)
def test_shortened_chunks_are_finite_and_within_limits_whatever_the_policy_says(chunk, rate):
    result = fixed(rate, DELTA_ROBOT).shorten(chunk, np.zeros(7), np.zeros(7))
    assert np.isfinite(result.actions).all()
    if len(result.actions) < len(chunk):
        assert (result.actions >= DELTA_ROBOT.action_low).all()
        assert (result.actions <= DELTA_ROBOT.action_high).all()
    else:
        assert np.array_equal(result.actions, chunk)


def test_the_velocity_at_the_end_of_a_chunk_is_expected_when_nobody_reports_it(engine):
    waiting, prepared, reported = (ChunkAccelerator(engine) for _ in range(3))
    chunk, state, previous = moment()
    first = waiting.shorten(chunk, state)
    prepared.shorten(chunk, state)
    prepared.prepare()
    reported.shorten(chunk, state, previous)
    after = EPISODE.states[20 + N]
    later = EPISODE.actions[20 + N : 20 + 2 * N]
    assert np.array_equal(waiting.shorten(later, after).actions, prepared.shorten(later, after).actions)
    assert first.reason is None
    assert reported.shorten(later, after, EPISODE.states[19 + N]).reason is None


def test_a_world_model_that_fails_does_not_stop_the_robot(engine, caplog):
    class Broken:
        """A stand-in world model that fails as it is told to."""

        robot = ALOHA
        memory = engine.world_model.memory

        def rollout(self, observations, actions, before=None):
            raise DecisionError("no prediction today")

        def save(self, directory):
            raise AssertionError

    accelerator = ChunkAccelerator(dataclasses.replace(engine, world_model=Broken()))
    chunk, state, _ = moment()
    for _ in range(2):
        assert np.isfinite(accelerator.shorten(chunk, state).actions).all()
    assert "no prediction today" in caplog.text


class Told:
    """A stand-in scheduler: rate 3, and a list of the last commands that it was told of."""

    def __init__(self):
        self.before = []

    def schedule(self, observation, chunk, before=None):
        self.before.append(before)
        return uniform_warp(len(chunk), 3.0)

    def reset(self):
        pass


def test_the_last_commands_are_remembered_within_an_episode():
    scheduler, model = Told(), RememberingWorldModel()
    accelerator = ChunkAccelerator(Engine(ALOHA, lambda: scheduler, world_model=model))
    chunk, state, _ = moment()
    first = accelerator.shorten(chunk, state).actions
    second = accelerator.shorten(chunk[:3], state).actions
    assert (len(first), len(second)) == (4, 1)
    accelerator.shorten(chunk, state)
    accelerator.reset()
    accelerator.shorten(chunk, state)
    nothing = np.full((2, 14), np.nan)
    expected = [nothing, first[-2:], np.concatenate([first[-1:], second]), nothing]
    np.testing.assert_array_equal(scheduler.before, expected)
    # The velocity at the end of a chunk is foretold from what was known at its beginning.
    np.testing.assert_array_equal(np.concatenate(model.told), expected[:2])


def test_a_chunk_that_q_would_leave_as_it_is_gets_a_second_opinion(patch_folder):
    patch, second, before = load_patch(patch_folder), Told(), np.zeros((2, 14))
    scheduler = LearnedScheduler(patch.chooser, patch.candidates, patch.world_model, second)
    chunk, state, previous = moment()
    o = observe(ALOHA, state, previous)
    for slowest, asked in ((False, 0), (True, 1)):
        prefer_length(patch.chooser, slowest)
        warp = scheduler.schedule(o, chunk, before)
        assert len(second.before) == asked
    assert len(warp) == len(uniform_warp(N, 3.0))
    assert second.before[0] is before


def prefer_length(chooser, longest):
    """Makes Q like the longest, or the shortest, option best."""
    chooser.q = lambda observations, chunks, lengths: (lengths if longest else -lengths).astype(np.float32)


def told_motions(patch):
    """The patch of a stand-in robot whose arms move as motion commands say."""
    arms = tuple(dataclasses.replace(arm, gain=0.01) for arm in patch.limits.arms)
    return dataclasses.replace(patch, limits=dataclasses.replace(patch.limits, arms=arms))


def test_where_arms_are_told_motions_the_second_opinion_is_the_world_models(patch_folder):
    sent_targets = load_patch(patch_folder)
    assert patch_engine(sent_targets).new_scheduler().second is None
    patch = told_motions(sent_targets)
    scheduler = patch_engine(patch).new_scheduler()
    assert patch_engine(patch, second_opinion=False).new_scheduler().second is None
    if isinstance(patch.choices, Rates):  # as in the paper
        assert scheduler.second is None
        return
    prefer_length(patch.chooser, longest=True)
    chunk, state, previous = moment()
    o = observe(ALOHA, state, previous)
    chosen, greedy = (each.schedule(o, chunk) for each in (scheduler, scheduler.second))
    assert np.array_equal(chosen.positions, greedy.positions)
    assert len(chosen) < N


def test_a_patch_can_be_run_as_if_it_did_not_know_what_was_measured(patch_folder, tmp_path):
    if not isinstance(load_patch(patch_folder).choices, Retimings):
        with pytest.raises(InputError, match="that is no rule of this patch; its rules are guard"):
            find_engine(f"without-coasting:{patch_folder}", ALOHA)
        return
    told = tmp_path / "told.patch"
    shutil.copytree(patch_folder, told)
    description = json.loads((told / "patch.json").read_text())
    for arm in description["limits"]["arms"]:
        arm.update(gain=0.01, axis_lags=[2.0, 1.0, 1.0], axis_gains=[0.01] * 3)
    for gripper in description["limits"]["grippers"]:
        gripper.update(letting_go=7.0)
    (told / "patch.json").write_text(json.dumps(description))
    known, not_running_on, not_letting_go = (
        find_engine(f"{part}{told}", ALOHA).caution.limits
        for part in ("", "without-coasting:", "without-release-delay:")
    )
    assert all(arm.axis_lags == (2.0, 1.0, 1.0) for arm in known.arms)
    assert all(arm.axis_lags == arm.axis_gains == () for arm in not_running_on.arms)
    assert [arm.gain for arm in not_running_on.arms] == [arm.gain for arm in known.arms]
    assert all(gripper.letting_go == 7.0 for gripper in known.grippers + not_running_on.grippers)
    assert all(gripper.letting_go == 0.0 for gripper in not_letting_go.grippers)
    assert not_letting_go.arms == known.arms


def test_a_part_that_cannot_be_left_out_is_named(patch_folder):
    with pytest.raises(InputError, match="without-haste: that is no rule"):
        find_engine(f"without-haste:{patch_folder}", ALOHA)


def test_a_reset_forgets_the_episode(engine):
    accelerator = ChunkAccelerator(engine)
    chunk, state, _ = moment()
    fresh = accelerator.shorten(chunk, state).actions
    accelerator.shorten(chunk, state)
    accelerator.reset()
    assert np.array_equal(accelerator.shorten(chunk, state).actions, fresh)


def test_a_q_that_is_not_a_number_is_no_choice(engine, patch_folder):
    patch = load_patch(patch_folder)
    chooser = patch.chooser
    chooser.q = lambda observations, chunks, lengths: np.full(len(observations), np.nan, dtype=np.float32)
    scheduler = LearnedScheduler(chooser, patch.candidates, patch.world_model)
    broken = dataclasses.replace(engine, new_scheduler=lambda: scheduler)
    result = ChunkAccelerator(broken).shorten(*moment())
    assert result.reason == "decision failed"
    assert np.array_equal(result.actions, moment()[0])


def test_a_prediction_that_is_not_finite_is_no_choice():
    class Lost(RememberingWorldModel):
        def rollout(self, observations, actions, before=None):
            return np.nan * super().rollout(observations, actions, before)

    with pytest.raises(DecisionError, match="not finite"):
        paths_at_rate_one(Lost(), observe(ALOHA, moment()[1], moment()[2])[None], moment()[0][None])


def test_a_state_that_no_motion_leads_to_is_a_jump():
    accelerator = fixed(2.0, world_model=RememberingWorldModel())
    chunk, state, _ = moment()
    assert not accelerator.jumped(state)  # nothing was predicted yet
    accelerator.shorten(chunk, state)
    for t in (20, 20 + N // 2, 20 + N):  # where it was, on the way, and where it was led to
        assert not accelerator.jumped(EPISODE.states[t])
    assert accelerator.jumped(EPISODE.states[20 + N] + 0.5)
    accelerator.reset()
    assert not accelerator.jumped(EPISODE.states[20 + N] + 0.5)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_the_answer_is_a_copy_in_the_policys_precision(precision):
    chunk, state, previous = moment()
    chunk = chunk.astype(precision)
    for rate in (1.0, 2.0):
        accelerator = fixed(rate)
        result = accelerator.shorten(chunk, state, previous)
        assert result.actions.dtype == precision
        assert not np.shares_memory(result.actions, chunk)
    assert fixed(1.0).shorten(chunk, state, previous).actions.tobytes() == chunk.tobytes()


def test_a_cap_never_lengthens_a_chunk_nor_lets_it_past_the_limits():
    chunk = np.full((24, 14), 9.0)
    accelerator = fixed(3.9, max_rate=1.01)
    assert np.array_equal(accelerator.shorten(chunk, moment()[1]).actions, chunk)


def test_a_failing_guard_runs_the_original(engine, monkeypatch):
    def sleep(self, observation, chunk):
        raise np.linalg.LinAlgError("the guard is asleep")

    monkeypatch.setattr("speedup_patch.guard.Guard.reason", sleep)
    assert ChunkAccelerator(engine).shorten(*moment()).reason == "decision failed"


@pytest.mark.parametrize(
    ("rotation", "row", "low", "high"),
    [
        ("euler_xyz", (0.1, 0.1, 3.5), 0.0, 6.3),
        ("axis_angle", (3.3, 0.0, 0.0), 0.0, 6.3),
        ("quaternion_xyzw", (0.8, 0.0, 0.0, -0.6), -1.0, 1.0),
    ],
)
def test_an_absolute_rotation_stays_as_the_policy_writes_it(rotation, row, low, high):
    size = len(row)
    robot = dataclasses.replace(
        DELTA_ROBOT,
        actions=(
            ActionGroup(tuple("abcd"[:size]), "absolute", "rad", (low,) * size, (high,) * size, rotation=rotation),
        ),
        arms=(dataclasses.replace(DELTA_ROBOT.arms[0], gripper=None),),
    )
    result = fixed(2.0, robot).shorten(np.tile(row, (8, 1)), np.zeros(7), np.zeros(7))
    np.testing.assert_allclose(result.actions, np.tile(row, (len(result.actions), 1)), atol=1e-6)
    assert len(result.actions) == 4
