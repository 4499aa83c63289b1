"""The training loop: LeRobot's ACT and its loss, with the whole data set on the device and noise on the inputs."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from lerobot_act import (
    ACTION,
    ACTION_IS_PAD,
    LEROBOT_VERSION,
    OBS_ENV_STATE,
    OBS_STATE,
    ACTConfig,
    ACTPolicy,
    Statistics,
    make_config,
)
from recording import Frames, Recording, normalise, split_rows
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

GRADIENT_CLIP = 10.0  # LeRobot's preset for ACT
AVERAGE_EVERY = 10  # steps between updates of the weight average
EVALUATION_ROWS = 2048

Step = Callable[[], Tensor]


def option(default: float | str, text: str) -> float | str:
    """A field of TrainingConfig with its command-line help."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides what is trained; each field is a command-line option."""

    steps: int = option(20_000, "gradient steps")
    batch_size: int = option(256, "chunks a step")
    lr: float = option(5e-4, "peak learning rate: linear warm-up, then cosine decay to zero")
    warmup: int = option(500, "steps of warm-up")
    weight_decay: float = option(1e-4, "AdamW weight decay")
    average_horizon: int = option(1000, "steps over which the saved weights are averaged")
    state_noise: float = option(0.02, "std of the noise added to the normalised state")
    environment_noise: float = option(0.02, "std of the noise added to the normalised environment state")
    smallest_std: float = option(0.01, "floor of the standard deviations used to normalise, in each dimension's unit")
    held_out: float = option(0.05, "fraction of the episodes used only to measure the error")
    chunk: int = option(24, "actions a chunk")
    dim_model: int = option(128, "width of the transformer")
    encoder_layers: int = option(3, "transformer encoder layers")
    decoder_layers: int = option(1, "transformer decoder layers")
    vae_layers: int = option(2, "layers of the variational encoder, which only training uses")
    kl_weight: float = option(10.0, "weight of the variational term")
    dropout: float = option(0.1, "dropout in every transformer layer")
    seed: int = option(0, "seed of the weights, the batches and the noise")
    device: str = option("auto", "cpu, cuda, or auto: cuda when there is one")
    log_every: int = option(1000, "steps between two lines of progress")

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is a fraction in [0, 1), got {self.held_out}")
        if min(self.steps, self.batch_size, self.chunk, self.log_every) < 1:
            raise ValueError("steps, batch_size, chunk and log_every must be at least 1")
        if not 0 <= self.warmup < self.steps:
            raise ValueError(f"warmup must be shorter than the {self.steps} steps of training, got {self.warmup}")


def learning_rate(step: int, config: TrainingConfig) -> float:
    """The learning rate of a step: linear warm-up, then half a cosine down to zero."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    progress = (step - config.warmup) / (config.steps - config.warmup)
    return config.lr * 0.5 * (1 + math.cos(math.pi * progress))


def loss_terms(policy: ACTPolicy, batch: dict[str, Tensor]) -> Tensor:
    """ACT's L1 error and KL divergence, shape (2,), kept on the device.

    They are the terms of `ACTPolicy.forward`, which calls `.item()`: that waits for the device each step, and a CUDA
    graph cannot hold it.
    """
    predicted, (mean, log_variance) = policy.model(batch)
    error = (predicted - batch[ACTION]).abs() * ~batch[ACTION_IS_PAD].unsqueeze(-1)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
    return torch.stack([error.mean(), divergence])


def weigh(terms: Tensor, policy: ACTPolicy) -> Tensor:
    """The loss, a scalar, from its two terms (2,)."""
    return terms[0] + policy.config.kl_weight * terms[1]


def check_loss(policy: ACTPolicy, batch: dict[str, Tensor]) -> None:
    """Raise unless `loss_terms` gives the loss that LeRobot itself computes on this batch."""
    losses: list[float] = []
    for compute in (lambda: policy(batch)[0], lambda: weigh(loss_terms(policy, batch), policy)):
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            losses.append(compute().item())
    if not math.isclose(*losses, rel_tol=1e-4):
        raise RuntimeError(f"LeRobot's loss is {losses[0]}, ours {losses[1]}: another version than {LEROBOT_VERSION}?")


def make_step(
    policy: ACTPolicy, optimizer: torch.optim.Optimizer, frames: Frames, rows: Tensor, config: TrainingConfig
) -> Step:
    """A function that takes one gradient step on a random noisy batch and returns the loss terms (2,)."""

    def step() -> Tensor:
        chosen = rows[torch.randint(len(rows), (config.batch_size,), device=rows.device)]
        batch = frames.gather(chosen, config.chunk)
        for name, noise in ((OBS_STATE, config.state_noise), (OBS_ENV_STATE, config.environment_noise)):
            batch[name] = batch[name] + noise * torch.randn_like(batch[name])
        terms = loss_terms(policy, batch)
        optimizer.zero_grad()
        weigh(terms, policy).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), GRADIENT_CLIP)
        optimizer.step()
        return terms.detach()

    return step


@dataclass(frozen=True)
class CapturedStep:
    """A step replayed as one CUDA graph."""

    graph: torch.cuda.CUDAGraph
    terms: Tensor
    step: Step  # kept alive, because the graph reads the memory of the tensors that the step closes over

    def __call__(self) -> Tensor:
        """Take one gradient step and return the loss terms (2,)."""
        self.graph.replay()
        return self.terms


def capture(step: Step) -> CapturedStep:
    """The same step as one CUDA graph; a network this small otherwise waits for its kernels to be launched."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        terms = step()
    return CapturedStep(graph, terms, step)


def held_out_error(policy: ACTPolicy, frames: Frames, rows: Tensor, chunk_length: int) -> float:
    """Mean absolute error of the predicted chunks without noise, in standard deviations of each action dimension."""
    if len(rows) == 0:
        return math.nan
    evenly = torch.linspace(0, len(rows) - 1, min(EVALUATION_ROWS, len(rows)), device=rows.device).long()
    batch = frames.gather(rows[evenly], chunk_length)
    valid = ~batch[ACTION_IS_PAD]
    return (policy.predict_action_chunk(batch) - batch[ACTION])[valid].abs().mean().item()


def choose_device(name: str) -> torch.device:
    """The named device; `auto` is a CUDA device when there is one and the CPU otherwise."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def describe_network(recording: Recording, config: TrainingConfig) -> ACTConfig:
    """The ACT that fits the recording's dimensions."""
    return make_config(
        {name: values.shape[1] for name, values in recording.features.items()},
        chunk_size=config.chunk,
        n_action_steps=config.chunk,
        dim_model=config.dim_model,
        dim_feedforward=4 * config.dim_model,
        n_encoder_layers=config.encoder_layers,
        n_decoder_layers=config.decoder_layers,
        n_vae_encoder_layers=config.vae_layers,
        kl_weight=config.kl_weight,
        dropout=config.dropout,
    )


def train(recording: Recording, statistics: Statistics, config: TrainingConfig) -> tuple[ACTPolicy, dict[str, float]]:
    """The trained policy (averaged weights) and its last measurements."""
    device = choose_device(config.device)
    torch.manual_seed(config.seed)  # dropout and the VAE draw from torch's global generator
    policy = ACTPolicy(describe_network(recording, config)).to(device).train()
    frames = normalise(recording, statistics, policy.config, device)
    training_rows, held_out_rows = (
        rows.to(device)
        for rows in split_rows(recording.episode_ends, config.held_out, np.random.default_rng(config.seed))
    )
    check_loss(policy, frames.gather(training_rows[: config.batch_size], config.chunk))

    on_cuda = device.type == "cuda"
    lr = torch.tensor(learning_rate(0, config), device=device)  # a tensor, so that the captured step sees it change
    optimizer = torch.optim.AdamW(
        policy.parameters(), lr=lr, weight_decay=config.weight_decay, fused=True, capturable=on_cuda
    )
    step = make_step(policy, optimizer, frames, training_rows, config)
    if on_cuda:
        torch.set_float32_matmul_precision("high")
        step = capture(step)
    decay = 1 - AVERAGE_EVERY / max(AVERAGE_EVERY, config.average_horizon)
    average = AveragedModel(policy, multi_avg_fn=get_ema_multi_avg_fn(decay))

    measured: dict[str, float] = {}
    started = time.perf_counter()
    for number in range(config.steps):
        lr.fill_(learning_rate(number, config))
        terms = step()
        last = number + 1 == config.steps
        if last or (number >= config.warmup and number % AVERAGE_EVERY == 0):
            average.update_parameters(policy)
        if last or (number + 1) % config.log_every == 0:
            l1, divergence = terms.tolist()
            held_out = held_out_error(average.module, frames, held_out_rows, config.chunk)
            speed = (number + 1) / (time.perf_counter() - started)
            measured = {"l1": l1, "kl": divergence, "held_out_l1": held_out, "steps_per_second": speed}
            line = "  ".join(f"{name} {value:.4g}" for name, value in measured.items())
            print(f"step {number + 1}/{config.steps}  {line}", flush=True)
    return average.module, measured
