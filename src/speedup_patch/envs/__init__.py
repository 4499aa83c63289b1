"""The simulators we know by name; each is imported only when it is asked for."""

import numpy as np

from speedup_patch.envs.expert import Expert
from speedup_patch.envs.libero_tasks import SUITE_FOLDERS, TASKS, parse_name
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Env

ALOHA_INSTRUCTIONS: dict[str, str] = {
    "aloha/transfer": "Pick up the red cube with the right arm and hand it to the left arm.",
    "aloha/insertion": "Insert the red peg into the blue socket.",
}
"""What the robot is asked to do, by environment name."""

ALOHA_ENVS: tuple[str, ...] = tuple(ALOHA_INSTRUCTIONS)
LIBERO_SUITES: tuple[str, ...] = tuple(f"libero/{suite}" for suite in SUITE_FOLDERS)
ENVS: tuple[str, ...] = (*ALOHA_ENVS, *LIBERO_SUITES, *(task.name for task in TASKS))
"""The names that ``make_env`` knows."""


def make_env(name: str) -> Env:
    """The simulator of this name."""
    if name.startswith("libero/"):
        return _make_libero(name)
    if name.startswith("strangers/"):
        return _make_stranger(name)
    if name not in ALOHA_ENVS:
        known = (*ALOHA_ENVS, *LIBERO_SUITES, "libero/spatial/0 .. libero/long/9", "strangers/0 .. strangers/31")
        raise InputError(f"unknown environment {name!r}; known environments: {', '.join(known)}")
    try:
        from speedup_patch.envs.aloha import AlohaEnv
    except ModuleNotFoundError as error:
        raise _missing_extra(error, name, "aloha") from error
    return AlohaEnv("transfer" if name == "aloha/transfer" else "insertion")


def make_expert(env: Env, rng: np.random.Generator) -> Expert:
    """A scripted expert for one episode of this environment; ``rng`` draws its habits."""
    if env.name.startswith("libero/"):
        return _make_libero_expert(env, rng)
    from speedup_patch.envs.aloha import AlohaEnv
    from speedup_patch.envs.aloha_expert import AlohaExpert
    from speedup_patch.envs.aloha_scripts import InsertionScript, TransferScript
    from speedup_patch.envs.inverse_kinematics import ArmKinematics

    if not isinstance(env, AlohaEnv):
        raise InputError(f"no scripted expert for {env.name!r}; there is one for: {', '.join(ENVS)}")
    script = TransferScript(rng) if env.task == "transfer" else InsertionScript(rng)
    return AlohaExpert((ArmKinematics(env.model, "left"), ArmKinematics(env.model, "right")), script, rng)


def instruction(env: Env) -> str:
    """What the robot is asked to do in the episode that runs."""
    if env.name in ALOHA_INSTRUCTIONS:
        return ALOHA_INSTRUCTIONS[env.name]
    if env.name.startswith("strangers/"):
        from speedup_patch.envs.strangers import StrangerEnv

        assert isinstance(env, StrangerEnv)
        return env.instruction
    from speedup_patch.envs.libero import LiberoEnv

    assert isinstance(env, LiberoEnv)
    return env.instruction


def _make_stranger(name: str) -> Env:
    from speedup_patch.envs.strangers import StrangerEnv

    number = name.removeprefix("strangers/")
    if not number.isdecimal():
        raise InputError(f"unknown environment {name!r}; a stranger has a number, such as strangers/7")
    return StrangerEnv(int(number))


def _make_libero(name: str) -> Env:
    parse_name(name)
    try:
        from speedup_patch.envs.libero import LiberoEnv

        return LiberoEnv(name)
    except ModuleNotFoundError as error:
        raise _missing_extra(error, name, "libero") from error


def _make_libero_expert(env: Env, rng: np.random.Generator) -> Expert:
    from speedup_patch.envs.libero import LiberoEnv
    from speedup_patch.envs.libero_expert import LiberoExpert

    assert isinstance(env, LiberoEnv)
    return LiberoExpert(env, rng)


def _missing_extra(error: ModuleNotFoundError, name: str, extra: str) -> Exception:
    if (error.name or "").startswith("speedup_patch"):
        return error
    return InputError(f"{name} needs the package {error.name!r}: install speedup-patch[{extra}]")
