"""The trained scheduler as it leaves training, saved as safetensors + JSON."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from speedup_patch.array_files import check_same_shapes, save_arrays
from speedup_patch.artefacts import write_json
from speedup_patch.candidates import Choices
from speedup_patch.robots import Robot
from speedup_patch.scheduler.chooser import LearnedChooser
from speedup_patch.scheduler.files import CRITIC, DESCRIPTION, WEIGHTS, choices_to_json, read_scheduler
from speedup_patch.scheduler.inputs import CriticInputs
from speedup_patch.scheduler.network import TwinCritic


class TorchCritic:
    """A QFunction computed by torch."""

    def __init__(self, critic: TwinCritic) -> None:
        self.critic = critic.eval()

    def __call__(
        self,
        observations: Float[np.ndarray, "N O"],
        chunks: Float[np.ndarray, "N l A"],
        lengths: Int[np.ndarray, " N"],
    ) -> Float[np.ndarray, " N"]:
        with torch.inference_mode():
            inputs = (torch.from_numpy(observations), torch.from_numpy(chunks), torch.from_numpy(lengths).long())
            return self.critic.smaller(*inputs).numpy()


@dataclass(frozen=True, eq=False)
class TrainedScheduler:
    """The critic, what it is fed, and the choices it judges."""

    critic: TwinCritic
    inputs: CriticInputs
    choices: Choices

    @cached_property
    def chooser(self) -> LearnedChooser:
        """The scheduler at work, computed by torch."""
        return LearnedChooser(TorchCritic(self.critic), self.inputs, self.critic.shape.longest)

    def save(self, directory: Path) -> None:
        """Writes the weights, and what is needed to build the critic again."""
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in self.critic.state_dict().items()}
        arrays = {f"{CRITIC}{name}": array for name, array in weights.items()}
        for name, normalizer in (("observation", self.inputs.observation), ("action", self.inputs.action)):
            arrays |= {f"{name}.mean": normalizer.mean, f"{name}.std": normalizer.std}
        save_arrays(directory / WEIGHTS, arrays)
        description = {
            "kind": "iql",
            "critic": asdict(self.critic.shape),
            "relative_actions": self.inputs.relative_actions,
            "choices": choices_to_json(self.choices),
        }
        write_json(directory / DESCRIPTION, description)


def load_scheduler(directory: Path, robot: Robot) -> TrainedScheduler:
    """Reads what ``TrainedScheduler.save`` wrote and checks that it fits the robot."""
    saved = read_scheduler(directory, robot)
    critic = TwinCritic(saved.shape)
    check_same_shapes(saved.weights, critic.state_dict(), f"{directory / WEIGHTS}, read for robot {robot.name!r},")
    critic.load_state_dict({name: torch.from_numpy(array) for name, array in saved.weights.items()})
    return TrainedScheduler(critic, saved.inputs, saved.choices)
