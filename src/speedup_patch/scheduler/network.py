"""Q(o, A^k) and V(o): the paper's dual-stream critic and its value function, on normalised inputs."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def multilayer(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU in between."""
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        layers += [nn.ReLU(), nn.Linear(inputs, outputs)] if i else [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


class Critic(nn.Module):
    """A GRU reads the shortened chunk, an MLP the observation, a second MLP gives Q."""

    def __init__(self, observation_size: int, action_size: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.chunk_encoder = nn.GRU(action_size, hidden, layers, batch_first=True)
        self.observation_encoder = multilayer([observation_size, hidden, hidden])
        self.head = multilayer([2 * hidden, hidden, hidden, 1])

    def forward(
        self, observation: Float[Tensor, "B O"], chunk: Float[Tensor, "B l A"], length: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """Q of chunks whose rows from ``length`` on are padding."""
        outputs = self.chunk_encoder(chunk)[0]
        last = outputs[torch.arange(len(outputs), device=outputs.device), length - 1]
        return self.head(torch.cat([self.observation_encoder(observation), last], dim=-1)).squeeze(-1)


class TwinCritic(nn.Module):
    """Two critics of the same shape; the smaller of their answers is trusted."""

    def __init__(self, observation_size: int, action_size: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.first = Critic(observation_size, action_size, hidden, layers)
        self.second = Critic(observation_size, action_size, hidden, layers)

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
