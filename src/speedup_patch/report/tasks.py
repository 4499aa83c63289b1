"""What an environment's name says without its simulator: the task of a seed, and the robot."""

from speedup_patch.envs.libero_tasks import LiberoName, parse_name
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot, find_robot

ROBOTS = {"aloha": "aloha", "libero": "panda_libero"}
"""Family of environments -> the robot in it."""


def task_of(env: str, seed: int) -> str:
    """The task that a seed runs in an environment: in a LIBERO suite one of its tasks, elsewhere the environment."""
    suite = _libero_suite(env)
    if suite is None:
        return env
    try:
        from speedup_patch.envs.libero import choose_start
        from speedup_patch.envs.libero_scripts import has_script
    except ModuleNotFoundError:  # the simulator's packages: the page is as good without this detail
        return env
    tasks = tuple(filter(has_script, suite.tasks)) or suite.tasks
    return choose_start(tasks, seed).task.name


def instruction_of(task: str) -> str:
    """What the robot is asked to do, or nothing where the name alone says enough."""
    name = _libero_name(task)
    return name.tasks[0].instruction if name and name.index is not None else ""


def robot_of(env: str) -> Robot | None:
    """The robot of an environment, where its name tells."""
    known = ROBOTS.get(env.partition("/")[0])
    return find_robot(known) if known else None


def _libero_suite(env: str) -> LiberoName | None:
    name = _libero_name(env)
    return name if name and name.index is None else None


def _libero_name(env: str) -> LiberoName | None:
    try:
        return parse_name(env)
    except InputError:
        return None
