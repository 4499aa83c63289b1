"""Q(o, A^k) and V(o): the paper's dual-stream critic and its value function, on normalised inputs."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from speedup_patch.scheduler.inputs import CriticShape


def multilayer(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU in between."""
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers += [nn.ReLU(), nn.Linear(inputs, outputs)] if i else [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


class GruEncoder(nn.Module):
    """The state of a GRU after the last row of each chunk."""

    def __init__(self, shape: CriticShape) -> None:
        super().__init__()
        self.gru = nn.GRU(shape.action_size, shape.hidden, shape.layers, batch_first=True)

    def forward(self, chunk: Float[Tensor, "B l A"], length: Int[Tensor, " B"]) -> Float[Tensor, "B H"]:
        outputs = self.gru(chunk)[0]
        return outputs[torch.arange(len(outputs), device=outputs.device), length - 1]


class RowsEncoder(nn.Module):
    """An MLP over all rows side by side, rows past the end of the chunk blanked, and over the chunk's length."""

    def __init__(self, shape: CriticShape) -> None:
        super().__init__()
        self.longest = shape.longest
        sizes = [shape.longest * shape.action_size + 1, *[shape.hidden] * (shape.layers + 1)]
        self.network = multilayer(sizes)

    def forward(self, chunk: Float[Tensor, "B l A"], length: Int[Tensor, " B"]) -> Float[Tensor, "B H"]:
        filled = torch.arange(chunk.shape[1], device=chunk.device) < length[:, None]
        rows = nn.functional.pad(chunk * filled[..., None], (0, 0, 0, self.longest - chunk.shape[1]))
        share = length[:, None] / self.longest
        return self.network(torch.cat([rows.flatten(1), share], dim=-1))


class Critic(nn.Module):
    """One encoder reads the shortened chunk, an MLP the observation, a second MLP gives Q."""

    def __init__(self, shape: CriticShape) -> None:
        super().__init__()
        self.chunk_encoder = GruEncoder(shape) if shape.encoder == "gru" else RowsEncoder(shape)
        self.observation_encoder = multilayer([shape.observation_size, shape.hidden, shape.hidden])
        self.head = multilayer([2 * shape.hidden, shape.hidden, shape.hidden, 1])

    def forward(
        self, observation: Float[Tensor, "B O"], chunk: Float[Tensor, "B l A"], length: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """Q of chunks whose rows from ``length`` on are padding."""
        encoded = [self.observation_encoder(observation), self.chunk_encoder(chunk, length)]
        return self.head(torch.cat(encoded, dim=-1).relu()).squeeze(-1)


class TwinCritic(nn.Module):
    """Two critics of the same shape; the smaller of their answers is trusted."""

    def __init__(self, shape: CriticShape) -> None:
        super().__init__()
        self.shape = shape
        self.first = Critic(shape)
        self.second = Critic(shape)

    def forward(
        self, observation: Float[Tensor, "B O"], chunk: Float[Tensor, "B l A"], length: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
        """Both answers."""
        return self.first(observation, chunk, length), self.second(observation, chunk, length)

    def smaller(
        self, observation: Float[Tensor, "B O"], chunk: Float[Tensor, "B l A"], length: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """The pessimistic Q."""
        return torch.minimum(*self(observation, chunk, length))


class Value(nn.Module):
    """V(o)."""

    def __init__(self, observation_size: int, hidden: int) -> None:
        super().__init__()
        self.network = multilayer([observation_size, hidden, hidden, 1])

    def forward(self, observation: Float[Tensor, "B O"]) -> Float[Tensor, " B"]:
        return self.network(observation).squeeze(-1)
