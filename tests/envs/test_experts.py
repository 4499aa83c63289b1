"""Scripted demonstrations: they succeed at human pace, correct disturbances, and repeat from their seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.envs import ALOHA_ENVS, make_env, make_expert
from speedup_patch.envs.aloha import AlohaEnv
from speedup_patch.envs.collect import LINGER_STEPS, collect_demonstrations, collect_episode, follow
from speedup_patch.envs.expert import Expert
from speedup_patch.envs.hand_motion import Shoves, SmoothNoise
from speedup_patch.envs.inverse_kinematics import TOOL_OFFSET, ArmKinematics, rotation_vector, turn
from speedup_patch.envs.seeds import DEMONSTRATIONS
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Env, Observation
from speedup_patch.policies import load_policy
from speedup_patch.robots import ALOHA

SIDES = {"left": 0, "right": 7}
MODEL = AlohaEnv("transfer").model


def silent(done: int, total: int) -> None:
    """A report that nobody reads."""


@pytest.fixture(scope="module", params=ALOHA_ENVS)
def demonstrations(request: pytest.FixtureRequest) -> tuple[str, Demonstrations]:
    return request.param, collect_demonstrations(request.param, episodes=3, seed=0, processes=1, report=silent)


def test_demonstrations_take_a_persons_time(demonstrations: tuple[str, Demonstrations]) -> None:
    name, collected = demonstrations
    lengths = [len(episode) for episode in collected]
    assert all(250 < length < make_env(name).max_steps for length in lengths)
    assert len(set(lengths)) > 1, "no two people are equally fast"


def test_recorded_actions_are_smooth_targets_within_the_limits(demonstrations: tuple[str, Demonstrations]) -> None:
    for episode in demonstrations[1]:
        assert (episode.actions >= ALOHA.action_low - 0.02).all()
        assert (episode.actions <= ALOHA.action_high + 0.02).all()
        steps = np.abs(np.diff(episode.actions, axis=0))
        grippers = [gripper.action for gripper in ALOHA.grippers]
        assert steps[:, grippers].max() < 0.12, "a gripper command did not ramp"
        jumps = (np.delete(steps, grippers, axis=1) > 0.12).any(axis=1)
        assert jumps.mean() < 0.02, "joint targets jump, more than where the wrist's two roll axes line up"


def test_what_was_sent_differs_from_the_clean_action(demonstrations: tuple[str, Demonstrations]) -> None:
    for episode in demonstrations[1]:
        strayed = np.abs(episode.extras["executed_action"] - episode.actions)
        assert strayed.max() > 0.01
        assert episode.task


def test_repeating_what_was_sent_repeats_the_episode(demonstrations: tuple[str, Demonstrations]) -> None:
    name, collected = demonstrations
    env, episode = make_env(name), collected.episodes[0]
    scene = episode.extras["observation.environment_state"][0]
    # An attempt that fails, which rounding may decide, is not recorded.
    tried = range(DEMONSTRATIONS, DEMONSTRATIONS + 19)
    seed = next(seed for seed in tried if np.array_equal(env.reset(seed)["environment_state"], scene))
    env.reset(seed)
    solved_at = []
    for step, action in enumerate(episode.extras["executed_action"]):
        observation, solved = env.step(action)
        if solved:
            solved_at.append(step)
        if step + 1 < len(episode):
            np.testing.assert_array_equal(observation["state"], episode.states[step + 1])
    assert solved_at[0] == len(episode) - 1 - LINGER_STEPS


def solves_when_pushed(env: Env, seed: int) -> bool:
    """Whether the expert solves the task although it is pushed once, in free space."""
    observation, expert = env.reset(seed), make_expert(env, np.random.default_rng(seed))
    assert isinstance(expert, Expert)
    for step in range(env.max_steps):
        action = expert.act(observation)
        pushed = action + (np.array([0.3, -0.2] + [0.0] * 12)[np.r_[7:14, 0:7]] if 40 <= step < 55 else 0.0)
        observation, solved = env.step(pushed)
        if solved:
            return True
    return False


def test_the_expert_comes_back_after_a_push() -> None:
    """On one of a few seeds: whether a single contact holds is up to the processor's rounding."""
    env = make_env("aloha/transfer")
    assert any(solves_when_pushed(env, seed) for seed in range(4))


def test_a_failed_attempt_gives_nothing() -> None:
    env = make_env("aloha/transfer")
    env.max_steps = 30
    rng = np.random.default_rng(0)
    assert collect_episode(env, make_expert(env, rng), rng, seed=0) is None


class StandIn:
    """A policy that stays where it is; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def infer(self, observation: Observation) -> np.ndarray:
        self.asked += 1
        return np.repeat(observation["state"][None], 24, axis=0)

    def reset(self) -> None:
        self.asked = 0


def test_a_correction_begins_where_the_policy_has_got_to() -> None:
    env, policy = make_env("aloha/transfer"), StandIn()

    def correct(seed: int) -> Episode | None:
        rng = np.random.default_rng(seed)
        return collect_episode(env, make_expert(env, rng), rng, seed=seed, policy=policy)

    seed, episode = next((seed, found) for seed in range(3, 9) if (found := correct(seed)) is not None)
    assert policy.asked > 0
    start = env.reset(seed)["state"]
    steps = int(np.random.default_rng([seed, 2]).integers(env.max_steps // 2))
    handed_over = follow(env, policy, env.reset(seed), steps)
    assert handed_over is not None
    np.testing.assert_array_equal(episode.states[0], handed_over["state"])
    assert np.abs(episode.states[0] - start).max() > 0, "the arms sag while the policy stands still"


def test_a_policy_that_solves_the_task_needs_no_correction() -> None:
    env, policy = make_env("aloha/transfer"), load_policy("bundled:aloha/transfer")
    assert any(follow(env, policy, env.reset(seed), env.max_steps) is None for seed in range(4))


def test_the_same_seed_collects_the_same_episodes_with_any_number_of_processes() -> None:
    alone, together = (
        collect_demonstrations("aloha/transfer", episodes=2, seed=1, processes=processes, report=silent)
        for processes in (1, 2)
    )
    assert alone.fingerprint() == together.fingerprint()


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int]] = []
    collect_demonstrations("aloha/insertion", 1, 2, 1, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]


@pytest.mark.parametrize(("episodes", "processes", "seed"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_refuses_to_collect_nothing(episodes: int, processes: int, seed: int) -> None:
    with pytest.raises(InputError, match=r"episodes >= 1 and processes >= 1|seed must lie between 0 and"):
        collect_demonstrations("aloha/transfer", episodes, seed, processes, silent)


def moderate_joints() -> st.SearchStrategy[np.ndarray]:
    """Joint angles around the working posture, where the wrist is well away from its singularity."""
    middle = np.array([0.0, -0.3, 0.5, 0.0, 0.8, 0.0])
    return st.lists(st.floats(-0.3, 0.3), min_size=6, max_size=6).map(lambda offsets: middle + np.array(offsets))


@settings(max_examples=20, deadline=None)
@given(joints=moderate_joints(), side=st.sampled_from(sorted(SIDES)))
def test_tool_pose_agrees_with_the_robots_kinematic_chain(joints: np.ndarray, side: str) -> None:
    state = np.zeros(ALOHA.state_size)
    state[SIDES[side] : SIDES[side] + 6] = joints
    tool = ArmKinematics(MODEL, side).tool_pose(joints)
    link = tool.position - TOOL_OFFSET * tool.rotation[:, 0]
    np.testing.assert_allclose(link, ALOHA.poses(state)[sorted(SIDES).index(side), :3], atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(goal=moderate_joints(), start=moderate_joints(), side=st.sampled_from(sorted(SIDES)))
def test_inverse_kinematics_reaches_the_pose(goal: np.ndarray, start: np.ndarray, side: str) -> None:
    arm = ArmKinematics(MODEL, side)
    wanted = arm.tool_pose(goal)
    reached = arm.tool_pose(arm.solve(wanted, start, iterations=60))
    assert np.linalg.norm(reached.position - wanted.position) < 2e-3
    assert np.linalg.norm(rotation_vector(reached.rotation.T @ wanted.rotation)) < 0.02


@settings(max_examples=30, deadline=None)
@given(vector=st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3).map(np.array))
def test_rotation_vectors_survive_the_round_trip(vector: np.ndarray) -> None:
    np.testing.assert_allclose(rotation_vector(turn(vector)), vector, atol=1e-7)


def test_smooth_noise_has_unit_deviation_and_no_jumps() -> None:
    noise = SmoothNoise(50, 12.0, np.random.default_rng(0))
    samples = np.array([noise.sample() for _ in range(4000)])
    assert abs(samples[500:].std() - 1.0) < 0.1
    assert abs(samples[500:].mean()) < 0.1
    assert np.abs(np.diff(samples, axis=0)).max() < 0.7


def test_shoves_come_now_and_then_last_some_steps_and_are_no_longer_than_one() -> None:
    shoves = Shoves(7, 40.0, (5, 10), np.random.default_rng(0))
    samples = np.array([shoves.sample() for _ in range(20_000)])
    lengths = np.linalg.norm(samples, axis=1)
    starts = np.flatnonzero((lengths > 0) & (np.diff(lengths, prepend=0.0) != 0))
    pushed = np.count_nonzero(lengths)
    assert lengths.max() <= 1.0
    assert 5 <= pushed / len(starts) <= 10
    assert 30 < (len(samples) - pushed) / len(starts) < 50
    assert np.abs(samples[starts].mean(axis=0)).max() < 0.05
