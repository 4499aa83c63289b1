"""The files of a trained scheduler, read without torch."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speedup_patch.array_files import Arrays, load_arrays
from speedup_patch.artefacts import read_json
from speedup_patch.candidates import Choices, Rates, Retimings
from speedup_patch.errors import InputError
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import feature_size
from speedup_patch.retiming import Boldness, RetimingConfig
from speedup_patch.robots import Robot
from speedup_patch.scheduler.inputs import CriticInputs, CriticShape

WEIGHTS, DESCRIPTION, GRAPH = "scheduler.safetensors", "scheduler.json", "scheduler.onnx"
CRITIC = "critic."
"""What the names of the critic's own arrays begin with."""


@dataclass(frozen=True, eq=False)
class SavedScheduler:
    """The critic's sizes and weights, what it is fed, and the choices it judges."""

    shape: CriticShape
    weights: Arrays
    inputs: CriticInputs
    choices: Choices


def read_scheduler(directory: Path, robot: Robot) -> SavedScheduler:
    """What a patch folder says of its scheduler; refused when it does not fit the robot."""
    path = directory / WEIGHTS
    description = read_json(directory / DESCRIPTION)
    arrays = load_arrays(path)
    try:
        choices = choices_from_json(description["choices"])
        shape = CriticShape(**description["critic"])
        if (shape.observation_size, shape.action_size) != (2 * feature_size(robot), robot.action_size):
            raise InputError(f"{path} was made for another robot than {robot.name!r}: {shape}")
        observation, action = (
            Normalizer(arrays[f"{name}.mean"], arrays[f"{name}.std"]) for name in ("observation", "action")
        )
        inputs = CriticInputs(robot, observation, action, bool(description["relative_actions"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} does not hold a scheduler for robot {robot.name!r}: {error}") from error
    weights = {name.removeprefix(CRITIC): array for name, array in arrays.items() if name.startswith(CRITIC)}
    return SavedScheduler(shape, weights, inputs, choices)


def choices_to_json(choices: Choices) -> dict[str, Any]:
    """What ``choices_from_json`` reads."""
    if isinstance(choices, Rates):
        return {"kind": "rates", **asdict(choices)}
    levels = [level._asdict() for level in choices.levels]
    return {"kind": "retimings", "levels": levels, "common": asdict(choices.common)}


def choices_from_json(document: dict[str, Any]) -> Choices:
    """The choices that a patch folder names; KeyError, TypeError or ValueError where it is damaged."""
    if document["kind"] == "rates":
        values = tuple(float(value) for value in document["values"])
        return Rates(values, document["tail"], document["rotations"])
    if document["kind"] == "retimings":
        levels = tuple(
            Boldness(**{name: float(value) for name, value in level.items()}) for level in document["levels"]
        )
        return Retimings(levels, RetimingConfig(**document["common"]))
    raise ValueError(f"unknown kind of choices {document['kind']!r}")
