"""The trained scheduler: argmax over rates of Q(o, A^k); saved as safetensors + JSON."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from speedup_patch.acceleration import accelerate
from speedup_patch.artefacts import read_json, write_json
from speedup_patch.errors import InputError
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import command_matrix, feature_size, split_observation
from speedup_patch.relabel import Rates
from speedup_patch.robots import Robot
from speedup_patch.scheduler.network import CriticShape, TwinCritic
from speedup_patch.tensor_files import load_tensors, save_tensors


@dataclass(frozen=True)
class CriticInputs:
    """How raw observations and chunks become the critic's inputs."""

    robot: Robot
    observation: Normalizer
    action: Normalizer
    relative_actions: bool

    def encode_observations(self, observations: Float[np.ndarray, "N O"]) -> Float[np.ndarray, "N O"]:
        """Normalised o."""
        return self.observation.apply(observations).astype(np.float32)

    def encode_chunks(
        self, observations: Float[np.ndarray, "N O"], chunks: Float[np.ndarray, "N *R l A"]
    ) -> Float[np.ndarray, "N *R l A"]:
        """Normalised commands, relative to where the robot is when they are targets."""
        return self.action.apply(chunks - self._origin(observations, chunks.ndim)).astype(np.float32)

    def _origin(self, observations: Float[np.ndarray, "N O"], dimensions: int) -> np.ndarray:
        if not self.relative_actions:
            return np.zeros(())
        x, _ = split_observation(observations)
        origin = x @ command_matrix(self.robot)
        return origin.reshape(len(origin), *[1] * (dimensions - 2), origin.shape[-1])


class LearnedRates:
    """A RateChooser: the rate with the largest Q."""

    def __init__(self, critic: TwinCritic, inputs: CriticInputs, rates: Rates) -> None:
        self.critic = critic.eval()
        self.inputs = inputs
        self.rates = rates

    def q_values(
        self, observations: Float[np.ndarray, "B O"], chunks: Float[np.ndarray, "B n A"]
    ) -> Float[np.ndarray, "B R"]:
        """Q of every rate for every chunk."""
        columns = [
            self.q_of_shortened(observations, accelerate(self.inputs.robot, chunks, warp, self.rates.rotations).actions)
            for warp in self.rates.warps(chunks.shape[1])
        ]
        return np.stack(columns, axis=1)

    def q_of_shortened(
        self, observations: Float[np.ndarray, "B O"], shortened: Float[np.ndarray, "B l A"], batch: int = 4096
    ) -> Float[np.ndarray, " B"]:
        """Q(o, A^k) of chunks that are already shortened."""
        encoded = torch.from_numpy(self.inputs.encode_observations(observations))
        actions = torch.from_numpy(self.inputs.encode_chunks(observations, shortened))
        length = torch.full((min(batch, len(actions)),), actions.shape[1])
        with torch.inference_mode():
            values = [
                self.critic.smaller(o, a, length[: len(a)])
                for o, a in zip(encoded.split(batch), actions.split(batch), strict=True)
            ]
        return torch.cat(values).numpy().astype(np.float64)

    def choose(
        self, observations: Float[np.ndarray, "B O"], chunks: Float[np.ndarray, "B n A"]
    ) -> Float[np.ndarray, " B"]:
        """The rate of the largest Q for every chunk."""
        return np.array(self.rates.values)[self.q_values(observations, chunks).argmax(axis=1)]

    def save(self, directory: Path) -> None:
        """Writes scheduler.safetensors and scheduler.json."""
        tensors = {f"critic.{name}": tensor.contiguous() for name, tensor in self.critic.state_dict().items()}
        for name, normalizer in (("observation", self.inputs.observation), ("action", self.inputs.action)):
            tensors[f"{name}.mean"] = torch.from_numpy(normalizer.mean)
            tensors[f"{name}.std"] = torch.from_numpy(normalizer.std)
        save_tensors(directory / "scheduler.safetensors", tensors)
        write_json(
            directory / "scheduler.json",
            {
                "kind": "iql",
                "critic": asdict(self.critic.shape),
                "relative_actions": self.inputs.relative_actions,
                "rates": asdict(self.rates),
            },
        )


def load_scheduler(directory: Path, robot: Robot) -> LearnedRates:
    """Reads what ``LearnedRates.save`` wrote and checks that it fits the robot."""
    path = directory / "scheduler.safetensors"
    description = read_json(directory / "scheduler.json")
    tensors, _ = load_tensors(path, torch.device("cpu"))
    try:
        rates = Rates(
            tuple(description["rates"]["values"]), description["rates"]["tail"], description["rates"]["rotations"]
        )
        shape = CriticShape(**description["critic"])
        if (shape.observation_size, shape.action_size) != (2 * feature_size(robot), robot.action_size):
            raise InputError(f"{path} was made for another robot than {robot.name!r}: {shape}")
        critic = TwinCritic(shape)
        critic.load_state_dict(
            {name.removeprefix("critic."): tensor for name, tensor in tensors.items() if name.startswith("critic.")}
        )
        observation, action = (
            Normalizer(tensors[f"{name}.mean"].numpy(), tensors[f"{name}.std"].numpy())
            for name in ("observation", "action")
        )
    except (KeyError, TypeError, RuntimeError) as error:
        raise InputError(f"{path} does not hold a scheduler for robot {robot.name!r}: {error}") from error
    return LearnedRates(critic, CriticInputs(robot, observation, action, bool(description["relative_actions"])), rates)
