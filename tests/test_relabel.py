from dataclasses import replace

import numpy as np
import pytest

from speedup_patch.candidates import Rates, Retimings, bind
from speedup_patch.errors import InputError
from speedup_patch.limits import read_limits
from speedup_patch.maths.poses import pose_distance
from speedup_patch.observations import feature_poses, feature_size, features, observe_episode, split_observation
from speedup_patch.relabel import follow, predict_counterfactuals, reached_starts, relabel
from speedup_patch.retiming import Boldness
from speedup_patch.robots import ALOHA
from speedup_patch.starts import chunks_at, find_starts, nearest_moments
from stand_ins import LaggingWorldModel, RememberingWorldModel, smooth_demonstrations

RATES = Rates((1.0, 2.0, 3.0))
RETIMINGS = Retimings((Boldness(1.0), Boldness(2.0), Boldness(4.0, scale=3.0, stroke=3.0)))
LIMITS = read_limits(ALOHA, smooth_demonstrations())
both = pytest.mark.parametrize("choices", [RATES, RETIMINGS])


def labelled(choices=RATES, model=None, **changes):
    arguments = {
        "limits": LIMITS,
        "chunk_length": 12,
        "epsilon": 0.02,
        "penalty": 5.0,
        "measure": "cross_track",
        "states": 200,
        "rng": np.random.default_rng(0),
    }
    candidates = bind(choices, ALOHA, LIMITS)
    return relabel(model or LaggingWorldModel(), smooth_demonstrations(), candidates, **arguments | changes)


def test_starts_are_every_state_with_a_whole_chunk_ahead():
    demonstrations = smooth_demonstrations(episodes=2, steps=30)
    starts = find_starts(ALOHA, demonstrations, 12)
    assert len(starts.chunks) == 2 * (30 - 12 + 1)
    np.testing.assert_array_equal(starts.chunks[20], demonstrations.episodes[1].actions[1:13])
    np.testing.assert_array_equal(starts.observations[19], observe_episode(ALOHA, demonstrations.episodes[1])[0])
    assert starts.episodes.tolist() == [0] * 19 + [1] * 19
    assert starts.moments.tolist() == 2 * list(range(19))


@both
@pytest.mark.parametrize("measure", ["in_step", "cross_track", "time_aligned"])
def test_rate_one_never_deviates_and_deviation_grows_with_the_rate(choices, measure):
    transitions = labelled(choices, measure=measure)
    np.testing.assert_allclose(transitions.deviations[:, 0], 0.0, atol=1e-6)
    assert transitions.deviations[:, 2].mean() > transitions.deviations[:, 1].mean() > 0


@both
def test_rewards_are_the_rate_or_minus_omega(choices):
    transitions = labelled(choices)
    whole = 12 / transitions.lengths
    assert (transitions.rates <= whole + 1e-9).all()  # what is left to the next chunk is not counted as gained
    np.testing.assert_allclose(transitions.rates[:, 0], whole[:, 0])
    assert np.isclose(transitions.rates, whole).mean() > 0.9
    assert transitions.violations.any()
    assert (~transitions.violations[:, 1:]).any()
    np.testing.assert_array_equal(transitions.rewards[transitions.violations], -5.0)
    safe = np.where(transitions.violations, -5.0, transitions.rates)
    np.testing.assert_array_equal(transitions.rewards, safe)


@both
def test_accelerated_starts_move_faster_than_demonstrated_ones(choices):
    transitions = labelled(choices)
    speed = np.abs(transitions.observations[:, transitions.observations.shape[1] // 2 :]).mean(axis=1)
    assert speed[transitions.accelerated].mean() > 1.2 * speed[~transitions.accelerated].mean()
    assert not labelled(accelerated_starts=False).accelerated.any()


def test_fewer_states_still_have_their_accelerated_twins():
    transitions = labelled(states=100)
    assert 50 <= (~transitions.accelerated).sum() <= 100
    assert transitions.accelerated.any()


def test_an_episode_shorter_than_a_chunk_is_named():
    with pytest.raises(InputError, match="episode 0 has 90 steps, fewer than a chunk of 120"):
        labelled(chunk_length=120)


@pytest.mark.parametrize("choices", [RATES, RETIMINGS])
def test_a_start_is_judged_the_same_alone_and_among_others(choices):
    starts = find_starts(ALOHA, smooth_demonstrations(), 12, stride=60)
    candidates = bind(choices, ALOHA, LIMITS)

    def judge(rows):
        return predict_counterfactuals(
            LaggingWorldModel(), starts.observations[rows], starts.chunks[rows], candidates, "in_step", LIMITS
        )

    together = judge(slice(None))
    for row in range(len(starts.chunks)):
        alone = judge(slice(row, row + 1))
        np.testing.assert_array_equal(alone.options.lengths[0], together.options.lengths[row])
        np.testing.assert_allclose(alone.deviations[0], together.deviations[row], atol=1e-9)
        np.testing.assert_allclose(alone.next_observations[0], together.next_observations[row], atol=1e-12)


@both
def test_few_rollouts_run_in_one_go_and_come_to_the_same(choices, monkeypatch):
    starts = find_starts(ALOHA, smooth_demonstrations(), 12, stride=60, memory=2)
    found = []
    for rows_together, calls in ((10_000, 1), (0, 3)):
        monkeypatch.setattr("speedup_patch.relabel.ROWS_TOGETHER", rows_together)
        model = RememberingWorldModel()
        candidates = bind(choices, ALOHA, LIMITS)
        found.append(
            predict_counterfactuals(
                model, starts.observations, starts.chunks, candidates, "in_step", LIMITS, starts.before
            )
        )
        assert len(model.told) == 1 + calls  # one for the path at rate 1
    for name in ("deviations", "next_observations", "next_before"):
        np.testing.assert_allclose(*(getattr(each, name) for each in found), atol=1e-12)


def test_a_chunk_ends_where_its_own_last_command_leaves_the_robot():
    # Chunks of a batch have different lengths: what comes after a chunk's end must not be looked at.
    starts = find_starts(ALOHA, smooth_demonstrations(), 12, stride=30)
    model = LaggingWorldModel()
    found = predict_counterfactuals(
        model, starts.observations, starts.chunks, bind(RETIMINGS, ALOHA, LIMITS), "in_step", LIMITS
    )
    assert len(np.unique(found.options.lengths[:, 2])) > 1
    size = starts.observations.shape[1] // 2
    for row, option in np.ndindex(*found.options.lengths.shape):
        commands = found.options.chunks[row, option, : found.options.lengths[row, option]]
        path = model.rollout(starts.observations[row, None], commands[None])[0]
        np.testing.assert_allclose(found.next_observations[row, option, :size], path[-1], atol=1e-12)


def test_every_start_knows_the_commands_before_it():
    episode = smooth_demonstrations().episodes[0]
    starts = find_starts(ALOHA, smooth_demonstrations(), 12, stride=30, memory=2)
    assert np.isnan(starts.before[0]).all()
    np.testing.assert_array_equal(starts.before[1], episode.actions[28:30])
    model = RememberingWorldModel()
    found = predict_counterfactuals(
        model, starts.observations, starts.chunks, bind(RETIMINGS, ALOHA, LIMITS), "in_step", LIMITS, starts.before
    )
    assert {told[0].tobytes() for told in model.told} == {starts.before[0].tobytes()}
    for row, option in np.ndindex(*found.options.lengths.shape):
        commands = found.options.chunks[row, option, : found.options.lengths[row, option]]
        sent = np.concatenate([starts.before[row], commands])
        np.testing.assert_array_equal(found.next_before[row, option], sent[-2:])


def test_states_reached_at_speed_remember_how_they_were_reached():
    model = RememberingWorldModel()
    labelled(RETIMINGS, model=model)
    demonstrated, reached = model.told[0], model.told[-1]
    assert len(reached) < len(demonstrated)
    assert np.isfinite(reached).all()
    of_demonstrations = {row.tobytes() for row in demonstrated}
    assert any(row.tobytes() not in of_demonstrations for row in reached)


def test_fingers_out_of_step_count():
    measured = {measure: labelled(RETIMINGS, measure=measure).deviations for measure in ("in_step", "cross_track")}
    assert (measured["in_step"] >= measured["cross_track"] - 1e-3).all()
    assert (measured["in_step"] > measured["cross_track"] + 1e-3).any()


def test_fingers_whose_commands_jump_count_half_as_much():
    grippers = [
        replace(limit, opening=replace(limit.opening, jumps=jumps), closing=replace(limit.closing, jumps=jumps))
        for limit, jumps in zip(LIMITS.grippers, (True, False), strict=True)
    ]
    x = np.random.default_rng(0).normal(size=(5, feature_size(ALOHA)))
    plain, jumping = (
        follow(ALOHA, limits, x, "in_step") for limits in (LIMITS, replace(LIMITS, grippers=tuple(grippers)))
    )
    assert np.array_equal(jumping[..., :7], plain[..., :7])
    np.testing.assert_allclose(jumping[:, 0, 7], LIMITS.tuning.deviation.jumping * plain[:, 0, 7])
    assert np.array_equal(jumping[:, 1, 7], plain[:, 1, 7])


@both
def test_what_was_reached_at_speed_goes_on_with_the_chunk_that_begins_there(choices):
    demonstrations, model, epsilon = smooth_demonstrations(), LaggingWorldModel(), 0.02
    candidates, starts = bind(choices, ALOHA, LIMITS), find_starts(ALOHA, demonstrations, 12, stride=4)
    found = predict_counterfactuals(model, starts.observations, starts.chunks, candidates, "in_step", LIMITS)
    for option in range(3):
        chosen = np.full(len(starts.chunks), option)
        reached = reached_starts(ALOHA, LIMITS, demonstrations, starts, found, chosen, epsilon)
        assert len(reached.chunks) > 0.5 * len(starts.chunks)
        states = [demonstrations.episodes[e].states[m] for e, m in zip(reached.episodes, reached.moments, strict=True)]
        here = feature_poses(ALOHA, split_observation(reached.observations)[0])
        distances = pose_distance(here, feature_poses(ALOHA, features(ALOHA, np.array(states)))).max(axis=-1)
        assert distances.max() <= epsilon
        chunks = chunks_at(demonstrations, reached.episodes, reached.moments, 12)
        np.testing.assert_array_equal(reached.chunks, chunks)
        assert (reached.moments <= 90 - 12).all()


def test_the_moment_that_a_robot_has_got_to_is_where_it_is():
    demonstrations = smooth_demonstrations(episodes=1, steps=40)
    starts = find_starts(ALOHA, demonstrations, 12, stride=5)
    places = np.zeros((40, 1, 8))
    places[:, 0, 0], places[:, 0, 6] = 0.02 * np.minimum(np.arange(40), 20), 1.0  # goes along x, then rests

    def found(start, at, done, opening=0.0, stroke=0.0):
        each = np.flatnonzero(starts.moments == start)
        one = replace(starts, **{name: getattr(starts, name)[each] for name in vars(starts)})
        here = np.array([[[at, 0, 0, 0, 0, 0, 1.0, opening]]])
        moments, distances = nearest_moments(demonstrations, one, [places], here, np.array([done]), stroke)
        return moments.item(), distances.item()

    assert found(5, 0.02 * 9.3, 12.0) == (9, pytest.approx(0.5 * 0.02 * 0.3))  # it lags behind what it was sent
    assert found(20, 0.4, 6.6) == (27, 0.0)  # it rests: nothing but what it was sent says when
    assert found(15, 0.4, 0.0) == (20, 0.0)
    assert found(25, 0.5, 12.0)[0] <= 28  # a whole chunk is left there
    places[12:, 0, 7] = 1.0  # fingers open at step 12
    assert found(5, 0.02 * 9, 12.0, opening=1.0, stroke=10.0)[0] == 12
