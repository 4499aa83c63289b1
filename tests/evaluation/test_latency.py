"""Episodes in which the policy takes its time: simulated, reckoned, and what people get of them."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from speedup_patch.data import Decision, EpisodeResult, MachineState
from speedup_patch.envs import make_env
from speedup_patch.errors import InputError
from speedup_patch.evaluation.compare import summarise
from speedup_patch.evaluation.episodes import episode_line, read_episodes
from speedup_patch.evaluation.rollout import run_episode, trace_episode
from speedup_patch.evaluation.run import EvaluationConfig, _missing_tasks
from speedup_patch.evaluation.schedulers import schedule_policy
from speedup_patch.evaluation.seconds import LATENCIES, Clock, latency_key
from speedup_patch.evaluation.stress import measure_stress, summarise_stress
from speedup_patch.policies import load_policy
from speedup_patch.robots import ALOHA
from stand_ins import DELTA_ROBOT, LaggingEnv, ReplayPolicy, smooth_demonstrations

EPISODE = smooth_demonstrations(episodes=1).episodes[0]
HZ = ALOHA.control_hz
CLOCK = Clock(HZ, 200)


class RecordingEnv(LaggingEnv):
    """The lagging joints, and every command that they were sent."""

    def reset(self, seed):
        self.sent = []
        return super().reset(seed)

    def step(self, action):
        self.sent.append(np.array(action))
        return super().step(action)


def play(spec="fixed:2", latency=0.0, env=None):
    env = env or RecordingEnv(EPISODE)
    return run_episode(env, schedule_policy(spec, ReplayPolicy(EPISODE, 12), env.robot), 0, latency), env


def test_a_latency_of_zero_is_the_same_episode_bit_for_bit():
    env = RecordingEnv(EPISODE)
    policy = schedule_policy("fixed:2", ReplayPolicy(EPISODE, 12), env.robot)
    traced, trace = trace_episode(env, policy, 0)
    result, env = play(latency=0.0)
    assert result == traced
    np.testing.assert_array_equal(np.array(env.sent), trace.actions)
    assert result.stalled == 0


@pytest.mark.parametrize(("latency", "waits"), [(0.02, 1), (0.05, 3), (0.1, 5)])
def test_every_call_holds_the_last_target_for_as_long_as_it_takes(latency, waits):
    immediate, at_once = play()
    result, env = play(latency=latency)
    assert result.latency == latency
    assert len(result.decisions) == len(immediate.decisions)
    assert result.stalled == waits * len(result.decisions)
    assert result.steps == immediate.steps + result.stalled
    held = [np.all(env.sent[index] == env.sent[index - 1]) for index in range(1, len(env.sent))]
    for number, decision in enumerate(result.decisions):
        first = decision.step
        expected = EPISODE.states[0] if number == 0 else env.sent[first - 1]
        for command in env.sent[first : first + waits]:
            np.testing.assert_array_equal(command, expected)
    assert sum(held) >= result.stalled - waits
    moving = [c for i, c in enumerate(env.sent) if not any(d.step <= i < d.step + waits for d in result.decisions)]
    np.testing.assert_array_equal(np.array(moving), np.array(at_once.sent))


def test_holding_still_is_no_motion_the_same_targets_and_the_same_gripper_commands():
    held = DELTA_ROBOT.hold(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -1.0]))
    np.testing.assert_array_equal(held, [0, 0, 0, 0, 0, 0, -1.0])
    target = EPISODE.actions[3]
    np.testing.assert_array_equal(ALOHA.hold(target), target)


def test_the_policy_answers_to_what_was_seen_when_it_was_asked():
    class Asking(ReplayPolicy):
        def __init__(self):
            super().__init__(EPISODE, 12)
            self.seen = []

        def infer(self, observation):
            self.seen.append(observation["state"])
            return super().infer(observation)

    class Watched(LaggingEnv):
        def step(self, action):
            answer = super().step(action)
            states.append(self.state)
            return answer

    states = [EPISODE.states[0]]
    policy = Asking()
    result = run_episode(Watched(EPISODE), schedule_policy("base", policy, ALOHA), 0, 0.1)
    for decision, seen in zip(result.decisions, policy.seen, strict=True):
        np.testing.assert_array_equal(seen, states[decision.step])


def test_waiting_counts_against_the_time_limit():
    short = RecordingEnv(EPISODE, max_steps=30)
    result, env = play("base", 0.1, short)
    assert not result.success
    assert result.steps == len(env.sent) == 30


@pytest.mark.parametrize("latency", [0.02, 0.1, 0.2])
def test_reckoned_equals_simulated_where_holding_still_changes_nothing(latency):
    specs = ("base", "fixed:2", "fixed:4")
    immediate = {spec: [play(spec)[0]] for spec in specs}
    delayed = {latency: {spec: [play(spec, latency)[0]] for spec in specs}}
    key = latency_key(latency)
    reckoned = summarise(immediate, np.random.default_rng(0), CLOCK, {latency: {}})
    simulated = summarise(immediate, np.random.default_rng(0), CLOCK, delayed)
    for spec in specs:
        ours, theirs = reckoned[spec].latency[key], simulated[spec].latency[key]
        assert (ours.reckoned, theirs.reckoned) == (True, False)
        expected = asdict(theirs)
        for name, figure in asdict(ours).items():
            if name != "reckoned":
                assert figure == pytest.approx(expected[name]), name


def episode(seed, success, steps, calls=4, task="", stress=None):
    decisions = tuple(Decision(number, 10, 5, 10.0) for number in range(calls))
    return EpisodeResult(seed, success, steps, decisions, task=task, stress=stress)


def test_seconds_follow_from_steps_and_calls():
    base = [episode(0, True, 100), episode(1, True, 150), episode(2, False, 200)]
    fast = [episode(0, True, 50, 8), episode(1, False, 200, 8), episode(2, True, 60, 8)]
    found = summarise({"base": base, "fast": fast}, np.random.default_rng(0), CLOCK)["fast"].latency
    assert list(found) == ["0", "0.05", "0.1", "0.2"]
    assert [found[latency_key(latency)].reckoned for latency in LATENCIES] == [False, True, True, True]
    at_once, waiting = found["0"], found["0.1"]
    assert at_once.speedup_seconds == pytest.approx(2.0)
    assert at_once.seconds_mean == pytest.approx(1.1)
    assert at_once.throughput_per_hour == pytest.approx(2 * 3600 / (1.0 + 1.2 + 4.0))
    assert at_once.stalled_share == 0
    assert waiting.speedup_seconds == pytest.approx((2.0 + 0.4) / (1.0 + 0.8))
    assert waiting.policy_calls == 8
    assert waiting.stalled_share == pytest.approx(3 * 0.8 / (1.0 + 4.0 + 1.2 + 3 * 0.8))
    assert waiting.successes == 2


def test_what_a_wait_makes_too_late_has_failed():
    found = summarise({"base": [episode(0, True, 190, 4)]}, np.random.default_rng(0), CLOCK)["base"].latency
    assert [summary.successes for summary in found.values()] == [1, 1, 0, 0]
    assert found["0.1"].throughput_per_hour == 0
    assert found["0.1"].seconds_mean is found["0.1"].speedup_seconds is None


def test_failures_alone_give_nothing_per_hour():
    found = summarise({"base": [episode(0, False, 200)]}, np.random.default_rng(0), CLOCK)["base"].latency
    assert [summary.throughput_per_hour for summary in found.values()] == [0, 0, 0, 0]


def test_intervals_draw_tasks_anew_where_a_run_has_several():
    rng = np.random.default_rng(1)
    base = [episode(seed, True, 100, task=f"t{seed % 5}") for seed in range(50)]
    fast = [episode(seed, seed > 2, int(30 + 10 * (seed % 5)), task=f"t{seed % 5}") for seed in range(50)]
    summary = summarise({"base": base, "fast": fast}, rng, CLOCK)["fast"]
    over = summary.over_tasks
    assert over.tasks == 5

    def width(interval):
        return interval[1] - interval[0]

    assert width(over.speedup) > 1.5 * width(summary.speedup_interval)
    assert width(over.success) >= width(summary.success_interval)
    assert width(over.success_difference) >= width(summary.success_difference_interval)
    at_once = summary.latency["0"]
    assert width(at_once.speedup_seconds_interval_over_tasks) > 1.5 * width(at_once.speedup_seconds_interval)
    alone = summarise({"base": [replace(r, task="t0") for r in base]}, rng, CLOCK)["base"]
    assert alone.over_tasks is None
    assert alone.intervals.success == alone.success_interval
    assert summary.intervals is over
    unknown = summarise({"base": [replace(base[0], task=""), *base[1:]]}, rng, CLOCK)["base"]
    assert unknown.over_tasks is None


def test_a_machine_that_moves_evenly_feels_no_acceleration():
    steps = np.arange(20)[:, None] * np.linspace(0.01, 0.12, 12)
    still = measure_stress(ALOHA, [MachineState(row) for row in steps])
    assert still.acceleration_99 == pytest.approx(0.0, abs=1e-6)
    assert still.jerk_99 == pytest.approx(0.0, abs=1e-4)
    assert still.peak_joint_speed == pytest.approx(0.12 * HZ)
    assert still.peak_joint_speed_rating_ratio == pytest.approx(
        max(np.linspace(0.01, 0.12, 12) * HZ / np.array(ALOHA.rated_speeds))
    )
    assert still.peak_force is still.peak_force_rating_ratio is None
    assert measure_stress(ALOHA, [MachineState(row) for row in steps[:3]]) is None


def test_forces_count_from_the_first_command_on_and_against_their_ratings():
    robot = replace(ALOHA, rated_torques=(10.0,) * 12)
    moments = [MachineState(np.zeros(12), np.full(12, force)) for force in (99.0, -5.0, 2.0, 3.0)]
    found = measure_stress(robot, moments)
    assert (found.peak_force, found.peak_force_rating_ratio) == (5.0, 0.5)


def test_ratings_of_another_number_of_joints_are_refused():
    with pytest.raises(InputError, match=r"12 rated_speeds.*3 joints"):
        measure_stress(ALOHA, [MachineState(np.zeros(3))] * 4)


def test_stress_is_compared_on_the_same_seeds():
    slow = play("base")[0].stress
    fast = replace(slow, peak_joint_speed=3 * slow.peak_joint_speed, jerk_99=2 * slow.jerk_99)
    base = {0: episode(0, True, 9, stress=slow), 1: episode(1, True, 9)}
    found = summarise_stress([episode(0, True, 9, stress=fast), episode(2, True, 9, stress=slow)], base)
    assert found.peak_joint_speed == pytest.approx(2 * slow.peak_joint_speed)
    assert found.peak_joint_speed_ratio == pytest.approx(3.0)
    assert found.jerk_ratio == pytest.approx(2.0)
    assert found.peak_force_ratio is None
    assert summarise_stress([episode(0, True, 9)], base).peak_joint_speed is None


def test_episodes_are_kept_apart_by_their_latency_and_found_again(tmp_path):
    file = tmp_path / "episodes.jsonl"
    immediate, waited = play()[0], play(latency=0.1)[0]
    file.write_text(episode_line("base", immediate) + episode_line("base", waited))
    assert read_episodes(file) == {"base": [immediate]}
    assert read_episodes(file, 0.1) == {"base": [waited]}
    old = json.loads(episode_line("base", immediate))
    for name in ("task", "latency", "stalled", "stress"):
        del old[name]
    file.write_text(json.dumps(old) + "\n")
    (found,) = read_episodes(file)["base"]
    assert found == replace(immediate, task="", stress=None)


def test_a_run_goes_on_with_what_it_lacks_at_each_latency(tmp_path):
    file = tmp_path / "episodes.jsonl"
    file.write_text(episode_line("base", play()[0]))
    config = EvaluationConfig("aloha/insertion", "bundled:aloha/insertion", ("base",), 2, latencies=(0.1, 0.0))
    assert [(task.latency, task.seeds) for task in _missing_tasks(config, file)] == [(0.0, [1]), (0.1, [0, 1])]


@pytest.mark.parametrize("latency", [-0.1, float("nan"), float("inf")])
def test_a_latency_is_a_number_of_seconds(latency):
    with pytest.raises(InputError, match="number of seconds"):
        EvaluationConfig("aloha/insertion", "p", ("base",), 1, latencies=(latency,))


def test_aloha_stays_where_it_is_before_the_first_command():
    env = make_env("aloha/insertion")
    start = env.reset(3)["state"]
    before = env.machine()
    for _ in range(10):
        seen, _ = env.step(env.hold_action())
    assert np.abs(seen["state"] - start).max() < 0.05
    after = env.machine()
    assert before.joints.shape == after.joints.shape == after.forces.shape == (12,)
    np.testing.assert_array_equal(after.joints, np.delete(seen["state"], [6, 13]))


def test_reading_the_machine_changes_nothing():
    env = make_env("aloha/transfer")
    policy = schedule_policy("fixed:2", load_policy("bundled:aloha/transfer"), env.robot)
    read = run_episode(env, policy, 1)
    env.machine = lambda: None
    unread = run_episode(env, policy, 1)
    assert read.stress is not None
    assert unread == replace(read, stress=None)
