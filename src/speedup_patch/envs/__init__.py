"""The simulators we know by name; each is imported only when it is asked for."""

import numpy as np

from speedup_patch.envs.expert import Expert
from speedup_patch.errors import InputError
from speedup_patch.interfaces import Env

INSTRUCTIONS: dict[str, str] = {
    "aloha/transfer": "Pick up the red cube with the right arm and hand it to the left arm.",
    "aloha/insertion": "Insert the red peg into the blue socket.",
}
"""What the robot is asked to do, by environment name."""

ENVS: tuple[str, ...] = tuple(INSTRUCTIONS)
"""The names that ``make_env`` knows."""


def make_env(name: str) -> Env:
    """The simulator of this name, at the start of an episode."""
    if name not in ENVS:
        raise InputError(f"unknown environment {name!r}; known environments: {', '.join(ENVS)}")
    try:
        from speedup_patch.envs.aloha import AlohaEnv
    except ModuleNotFoundError as error:
        raise _missing_extra(error, name, "aloha") from error
    return AlohaEnv("transfer" if name == "aloha/transfer" else "insertion")


def make_expert(env: Env, rng: np.random.Generator) -> Expert:
    """A scripted expert for one episode of this environment; ``rng`` draws its habits."""
    from speedup_patch.envs.aloha import AlohaEnv
    from speedup_patch.envs.aloha_expert import AlohaExpert
    from speedup_patch.envs.aloha_scripts import InsertionScript, TransferScript
    from speedup_patch.envs.inverse_kinematics import ArmKinematics

    if not isinstance(env, AlohaEnv):
        raise InputError(f"no scripted expert for {env.name!r}; there is one for: {', '.join(ENVS)}")
    script = TransferScript(rng) if env.task == "transfer" else InsertionScript(rng)
    return AlohaExpert((ArmKinematics(env.model, "left"), ArmKinematics(env.model, "right")), script, rng)


def _missing_extra(error: ModuleNotFoundError, name: str, extra: str) -> Exception:
    if (error.name or "").startswith("speedup_patch"):
        return error
    return InputError(f"{name} needs the package {error.name!r}: install speedup-patch[{extra}]")
