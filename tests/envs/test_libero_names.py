"""LIBERO's names and seeds, which need no LIBERO: which task, which initial state, and whether they are kept apart."""

import importlib.util
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.envs import ENVS, make_env
from speedup_patch.envs.libero import choose_start, suite_tasks
from speedup_patch.envs.libero_scripts import SCRIPTS
from speedup_patch.envs.libero_tasks import SUITE_FOLDERS, TASKS, Suite, parse_name
from speedup_patch.envs.seeds import DEMONSTRATIONS, DEVELOPMENT, FRESH
from speedup_patch.errors import InputError
from speedup_patch.policies import load_policy
from speedup_patch.policies.onnx import OnnxPolicy


def test_every_listed_name_is_understood() -> None:
    names = [name for name in ENVS if name.startswith("libero/")]
    assert len(names) == 4 + 40
    for name in names:
        parsed, double = parse_name(name), parse_name(name + "+double_gripper")
        assert (parsed.double_gripper, double.double_gripper) == (False, True)
        assert len(parsed.tasks) == (10 if parsed.index is None else 1)
        assert parsed.tasks == double.tasks


def test_instructions_are_plain_and_differ() -> None:
    instructions = {task.instruction for task in TASKS}
    assert len(instructions) == len(TASKS)
    assert all(text == text.lower() and "_" not in text for text in instructions)


@pytest.mark.parametrize("name", ["libero/kitchen", "libero/spatial/10", "libero/", "libero/goal/3+triple_gripper"])
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=r"spatial, object, goal, long"):
        make_env(name)


@pytest.mark.skipif(importlib.util.find_spec("robosuite") is not None, reason="LIBERO is installed")
def test_without_libero_the_extra_is_named() -> None:
    with pytest.raises(InputError, match=r"libero.*speedup-patch\[libero\]"):
        make_env("libero/spatial/0")


seeds = st.integers(0, 50 * DEMONSTRATIONS)


@given(
    evaluation=st.integers(0, DEVELOPMENT - 1),
    development=st.integers(DEVELOPMENT, DEMONSTRATIONS - 1),
    other=st.integers(DEMONSTRATIONS, FRESH + DEMONSTRATIONS),
)
def test_no_two_purposes_share_an_initial_state(evaluation: int, development: int, other: int) -> None:
    assert choose_start(TASKS[:10], evaluation).initial in range(20)
    assert choose_start(TASKS[:10], development).initial in (None, *range(20, 50))
    assert choose_start(TASKS[:10], other).initial is None


def test_development_takes_the_states_that_evaluation_leaves_and_then_scenes_placed_anew() -> None:
    starts = [choose_start(TASKS[:10], DEVELOPMENT + seed) for seed in range(310)]
    as_they_are, anew = starts[:300], starts[300:]
    assert {(start.task, start.initial) for start in as_they_are} == {
        (task, initial) for task in TASKS[:10] for initial in range(20, 50)
    }
    assert not any(start.arm_noise.any() for start in as_they_are)
    assert all(start.initial is None and start.arm_noise.any() for start in anew)
    assert [start.task for start in anew] == list(TASKS[:10])


def test_a_suites_seeds_visit_every_task_and_state_before_any_repeats() -> None:
    starts = [choose_start(TASKS[:10], seed) for seed in range(200)]
    assert len({(start.task, start.initial) for start in starts}) == 200
    assert not any(start.arm_noise.any() for start in starts)
    again = choose_start(TASKS[:10], 200)
    assert (again.task, again.initial) == (starts[0].task, starts[0].initial)
    assert again.arm_noise.any()


@given(seed=seeds)
def test_a_seed_names_one_start(seed: int) -> None:
    first, second = choose_start(TASKS[:10], seed), choose_start(TASKS[:10], seed)
    assert (first.task, first.initial) == (second.task, second.initial)
    np.testing.assert_array_equal(first.arm_noise, second.arm_noise)


@pytest.mark.parametrize("suite", SUITE_FOLDERS)
def test_a_suite_is_evaluated_on_the_tasks_that_its_bundled_policy_was_trained_on(suite: Suite) -> None:
    policy = load_policy(f"bundled:libero/{suite}")
    assert isinstance(policy, OnnxPolicy)
    name = parse_name(f"libero/{suite}")
    for seed in (0, DEVELOPMENT, FRESH):
        assert [task.instruction for task in suite_tasks(name, seed)] == json.loads(policy.metadata["tasks"])


def test_demonstrations_take_turns_over_every_task_with_an_expert() -> None:
    tasks = suite_tasks(parse_name("libero/long"), DEMONSTRATIONS)
    assert [task.name for task in tasks] == [name for name in SCRIPTS if name.startswith("libero/long/")]
    assert set(tasks) > set(suite_tasks(parse_name("libero/long"), 0))


@pytest.mark.parametrize("seed", [0, DEVELOPMENT, DEMONSTRATIONS, FRESH])
def test_a_task_that_is_asked_for_is_taken_whether_a_policy_knows_it_or_not(seed: int) -> None:
    assert [task.name for task in suite_tasks(parse_name("libero/long/9"), seed)] == ["libero/long/9"]


def test_negative_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="negative"):
        choose_start(TASKS[:10], -1)
