"""Trains Q and V on counterfactual transitions."""

import copy
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from speedup_patch.candidates import Choices
from speedup_patch.data import Transitions
from speedup_patch.maths.cmdp import value_bounds
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.reporting import Report, silent
from speedup_patch.robots import Robot
from speedup_patch.scheduler.choices import judge_choices
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.scheduler.inputs import CriticInputs, CriticShape
from speedup_patch.scheduler.iql import bellman_target, move_target, q_loss, value_loss
from speedup_patch.scheduler.model import TrainedScheduler
from speedup_patch.scheduler.network import TwinCritic, Value
from speedup_patch.scheduler.outlook import discounted_regret, following_states
from speedup_patch.training import adam_tensors, load_adam_tensors, train


class ResidentTransitions:
    """Transitions as normalised tensors on the training device; sample i is state i // R with option i % R."""

    def __init__(self, transitions: Transitions, inputs: CriticInputs, device: torch.device) -> None:
        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        states, rates, size = transitions.next_observations.shape
        self.states = states
        self.rate_count = rates
        self.samples = states * rates
        self.observations = put(inputs.encode_observations(transitions.observations))
        self.chunks = put(inputs.encode_chunks(transitions.observations, transitions.chunks))
        self.lengths = put(transitions.lengths)
        self.rewards = put(transitions.rewards.astype(np.float32))
        flat = inputs.encode_observations(transitions.next_observations.reshape(-1, size))
        self.next_observations = put(flat.reshape(states, rates, size))


class IqlLearner:
    """One IQL update at a time, in the paper's order: V, then Q, then the target."""

    def __init__(
        self,
        training: Transitions,
        held_out: Transitions,
        inputs: CriticInputs,
        config: SchedulerConfig,
        device: torch.device,
    ) -> None:
        self.config = config
        self.inputs = inputs
        self.held_out = held_out
        self.data = ResidentTransitions(training, inputs, device)
        self.evaluation = ResidentTransitions(held_out, inputs, device)
        seen = (self.evaluation.observations, self.evaluation.next_observations)
        self.following = following_states(*(part.cpu().numpy() for part in seen))
        self.value_bounds = value_bounds(training.rewards, config.gamma)
        """No return can be less, or more; V and the target Q are cut to them wherever something is learned from
        them. With gamma 0.9, V otherwise fed on its own errors."""
        generator_state = torch.get_rng_state()
        torch.manual_seed(config.loop.seed)
        longest, action_size = training.chunks.shape[2:]
        observation_size = training.observations.shape[1]
        shape = CriticShape(observation_size, action_size, longest, config.hidden, config.layers, config.encoder)
        self.critic = TwinCritic(shape).to(device)
        self.value = Value(observation_size, config.hidden).to(device)
        torch.set_rng_state(generator_state)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        for module in self.target.modules():
            if isinstance(module, torch.nn.GRU):
                module.flatten_parameters()
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=config.loop.learning_rate)
        self.value_optimizer = torch.optim.Adam(self.value.parameters(), lr=config.loop.learning_rate)

    def update(self, batch: Int[Tensor, " B"]) -> dict[str, Tensor]:
        """One gradient step of V and of Q on these samples."""
        state, rate = batch // self.data.rate_count, batch % self.data.rate_count
        observation, chunk, length = (
            self.data.observations[state],
            self.data.chunks[state, rate],
            self.data.lengths[state, rate],
        )
        with torch.no_grad():
            target_q = self.target.smaller(observation, chunk, length).clamp(*self.value_bounds)
        v_loss = value_loss(self.value(observation), target_q, self.config.expectile)
        _step(self.value_optimizer, v_loss)
        target = self.q_targets(state, rate)
        q1, q2 = self.critic(observation, chunk, length)
        critic_loss = q_loss(q1, q2, target)
        _step(self.critic_optimizer, critic_loss)
        move_target(self.target, self.critic, self.config.target_rate)
        return {"v_loss": v_loss.detach(), "q_loss": critic_loss.detach()}

    def values(self, observations: Float[Tensor, "B O"]) -> Float[Tensor, " B"]:
        """V, within what is possible."""
        with torch.no_grad():
            return self.value(observations).clamp(*self.value_bounds)

    def q_targets(self, state: Int[Tensor, " B"], rate: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """What Q of these options is pulled to; within the bounds, because V and the rewards are."""
        next_v = self.values(self.data.next_observations[state, rate])
        return bellman_target(self.data.rewards[state, rate], next_v, self.config.gamma)

    def evaluate(self) -> dict[str, float]:
        """How the choices fare on held-out states; the loss is the discounted penalised reward that they leave behind
        (see outlook.py)."""
        choices = self.q_values(self.evaluation).argmax(dim=1).cpu().numpy()
        figures = judge_choices(self.held_out.rates, self.held_out.violations, choices)
        return {
            "loss": discounted_regret(self.held_out.rewards, self.following, choices, self.config.gamma),
            "agreement": figures.agreement,
            "violating": figures.violating,
            "rate_mean": figures.rate_mean,
        }

    def q_values(self, data: ResidentTransitions) -> Float[Tensor, "N R"]:
        """Q of every state and option by the target network, whose slow average is steadier than the critic itself."""
        with torch.inference_mode():
            return torch.stack(
                [
                    self.target.smaller(data.observations, data.chunks[:, rate], data.lengths[:, rate])
                    for rate in range(data.rate_count)
                ],
                dim=1,
            )

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes."""
        modules = {"critic": self.critic, "value": self.value, "target": self.target}
        weights = {
            f"{name}.{key}": value for name, module in modules.items() for key, value in module.state_dict().items()
        }
        return (
            weights
            | adam_tensors(self.critic_optimizer, "critic_optimizer")
            | adam_tensors(self.value_optimizer, "value_optimizer")
        )

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Continues from what ``tensors`` returned."""
        for name, module in {"critic": self.critic, "value": self.value, "target": self.target}.items():
            prefix = f"{name}."
            module.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        load_adam_tensors(self.critic_optimizer, tensors, "critic_optimizer")
        load_adam_tensors(self.value_optimizer, tensors, "value_optimizer")


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def fit_inputs(robot: Robot, transitions: Transitions, relative_actions: bool) -> CriticInputs:
    """Normalisation read from the training transitions, padding left out."""
    identity = Normalizer(np.zeros(1), np.ones(1))
    raw = CriticInputs(robot, identity, identity, relative_actions)
    commands = raw.encode_chunks(transitions.observations, transitions.chunks)
    filled = np.arange(commands.shape[2]) < transitions.lengths[..., None]
    rows = commands[filled]
    return CriticInputs(robot, Normalizer.fit(transitions.observations), Normalizer.fit(rows), relative_actions)


def train_scheduler(
    training: Transitions,
    held_out: Transitions,
    robot: Robot,
    choices: Choices,
    config: SchedulerConfig,
    *,
    device: torch.device,
    checkpoint: Path | None = None,
    resume: bool = False,
    report: Report = silent,
) -> tuple[TrainedScheduler, dict[str, float]]:
    """The scheduler, and how it does on held-out states."""
    inputs = fit_inputs(robot, training, config.relative_actions)
    learner = IqlLearner(training, held_out, inputs, config, device)
    train(
        learner,
        learner.data.samples,
        config.loop,
        stage="scheduler",
        device=device,
        checkpoint=checkpoint,
        resume=resume,
        report=report,
    )
    figures = learner.evaluate()
    return TrainedScheduler(learner.target.to("cpu"), inputs, choices), figures
