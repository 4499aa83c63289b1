from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.envs.libero_tasks import TASKS
from speedup_patch.report.tasks import instruction_of, robot_of, task_of


@given(st.integers(0, 500))
def test_elsewhere_the_task_is_the_environment(seed):
    assert task_of("aloha/insertion", seed) == "aloha/insertion"
    assert task_of("libero/spatial/3", seed) == "libero/spatial/3"


@given(st.sampled_from(["libero/spatial", "libero/object", "libero/goal", "libero/long"]))
def test_the_seeds_of_a_suite_go_round_its_tasks(suite):
    seen = [task_of(suite, seed) for seed in range(40)]
    tasks = list(dict.fromkeys(seen))
    assert all(task.startswith(f"{suite}/") for task in tasks)
    assert seen == [tasks[seed % len(tasks)] for seed in range(40)]
    assert task_of(f"{suite}+double_gripper", 1) == seen[1]


def test_only_single_libero_tasks_have_words():
    assert instruction_of(TASKS[0].name) == TASKS[0].instruction
    assert instruction_of("libero/goal") == instruction_of("aloha/insertion") == ""


def test_the_robot_follows_from_the_name():
    assert robot_of("aloha/transfer").name == "aloha"
    assert robot_of("libero/goal/3+double_gripper").name == "panda_libero"
    assert robot_of("my/own") is None
