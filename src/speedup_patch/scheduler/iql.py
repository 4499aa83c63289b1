"""Implicit Q-learning (Kostrikov et al.): each loss a function from tensors to a tensor."""

import torch
from jaxtyping import Float
from torch import Tensor


def expectile_loss(difference: Float[Tensor, " B"], expectile: float) -> Float[Tensor, ""]:
    """L_2^tau: squares, where positive differences weigh ``expectile`` and negative ones the rest."""
    weight = torch.where(difference > 0, expectile, 1.0 - expectile)
    return (weight * difference.square()).mean()


def value_loss(v: Float[Tensor, " B"], target_q: Float[Tensor, " B"], expectile: float) -> Float[Tensor, ""]:
    """Pulls V(o) to the upper expectile of Q(o, A^k) over rates.

    The paper prints the difference as V - Q, which would be the lower expectile; Q - V is what IQL means.
    """
    return expectile_loss(target_q - v, expectile)


def bellman_target(reward: Float[Tensor, " B"], next_v: Float[Tensor, " B"], gamma: float) -> Float[Tensor, " B"]:
    """r' + gamma V(o')."""
    return reward + gamma * next_v


def q_loss(q1: Float[Tensor, " B"], q2: Float[Tensor, " B"], target: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    """Squared Bellman error of both critics."""
    return (q1 - target).square().mean() + (q2 - target).square().mean()


@torch.no_grad()
def move_target(target: torch.nn.Module, source: torch.nn.Module, rate: float) -> None:
    """Moves the target network a little towards the source, in place."""
    for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
        slow.lerp_(fast, rate)
