"""The base policy of a stranger: a small network that learns whole chunks from the demonstrations alone."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.data import Demonstrations
from speedup_patch.reporting import Report, silent
from speedup_patch.robots import KinematicChain, Robot, StatePose

SCENE = "observation.environment_state"
LEAST_SPREAD = 1e-3
"""Of the standard deviation by which a dimension is divided, where it hardly moves."""
CLOSE_UP = 0.15
"""Share of its usual length at which a distance between hand, object and goal also enters in close-up."""
REPORT_EVERY = 200
"""Gradient steps."""


@dataclass(frozen=True)
class ImitationConfig:
    """How the network is trained."""

    steps: int = 6000
    batch_size: int = 64
    hidden: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    state_noise: float = 0.02
    """Standard deviation of what is added to the state, in units of the state's; targets stay where they were."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Samples:
    """Every moment of every demonstration, and where in the padded actions its chunk begins."""

    states: Float[Tensor, "N S"]
    scenes: Float[Tensor, "N E"]
    actions: Float[Tensor, "M A"]
    """Every episode's actions, with its last resting action repeated for a chunk."""
    begins: Tensor


def gather_samples(demonstrations: Demonstrations, robot: Robot, chunk: int) -> Samples:
    """The demonstrations as tensors."""
    moving = [
        column
        for group, part in zip(robot.actions, robot.action_slices, strict=True)
        if group.mode == "delta"
        for column in range(part.start, part.stop)
    ]
    actions, begins, offset = [], [], 0
    for episode in demonstrations:
        rest = np.array(episode.actions[-1])
        rest[moving] = 0.0
        actions += [episode.actions, np.repeat(rest[None], chunk - 1, axis=0)]
        begins.append(offset + np.arange(len(episode)))
        offset += len(episode) + chunk - 1

    def tensor(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts).astype(np.float32))

    return Samples(
        tensor([episode.states for episode in demonstrations]),
        tensor([episode.extras[SCENE] for episode in demonstrations]),
        tensor(actions),
        torch.from_numpy(np.concatenate(begins)),
    )


class ChainPosition(nn.Module):
    """Where a serial arm's hand is, from the joints in the state."""

    places: Tensor
    turns: Tensor
    base: Tensor

    def __init__(self, chain: KinematicChain) -> None:
        super().__init__()
        self.columns = chain.joints
        self.units = [(link.scale, link.offset) for link in chain.links]
        places = [*(link.position for link in chain.links), chain.tool[:3]]
        self.register_buffer("places", torch.tensor(places, dtype=torch.float32)[:, None, :, None])
        self.register_buffer("turns", torch.stack([_turning(link.axis) for link in chain.links])[:, None])
        self.register_buffer("base", torch.tensor(chain.base[:3], dtype=torch.float32)[None, :, None])

    def forward(self, state: Tensor) -> Tensor:
        """(B, S) to (B, 3), metres."""
        place, frame = self.base, torch.eye(3)[None]
        for joint, (column, (scale, offset)) in enumerate(zip(self.columns, self.units, strict=True)):
            place = place + frame @ self.places[joint]
            angle, turn = (scale * state[:, column] + offset)[:, None, None], self.turns[joint]
            frame = frame @ (torch.eye(3)[None] + torch.sin(angle) * turn + (1 - torch.cos(angle)) * (turn @ turn))
        return (place + frame @ self.places[-1])[:, :, 0]


class StatePosition(nn.Module):
    """Where a hand is that the state itself shows."""

    def __init__(self, pose: StatePose) -> None:
        super().__init__()
        self.columns = list(pose.position)

    def forward(self, state: Tensor) -> Tensor:
        """(B, S) to (B, 3), metres."""
        return state[:, self.columns]


def _turning(axis: tuple[float, float, float]) -> Tensor:
    """The matrix that takes a vector to its cross product with ``axis``, from the left."""
    x, y, z = axis
    return torch.tensor([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


class ChunkNetwork(nn.Module):
    """State and scene, as they are observed, to a chunk of actions, as they are sent."""

    jumping: Tensor
    closed: Tensor
    opened: Tensor
    origin: Tensor
    action_mean: Tensor
    action_spread: Tensor
    state_mean: Tensor
    state_spread: Tensor
    scene_mean: Tensor
    scene_spread: Tensor
    gap_spread: Tensor

    def __init__(self, robot: Robot, samples: Samples, chunk: int, hidden: int) -> None:
        super().__init__()
        self.robot, self.chunk = robot, chunk
        self.hands = nn.ModuleList(
            ChainPosition(arm.pose) if isinstance(arm.pose, KinematicChain) else StatePosition(arm.pose)
            for arm in robot.arms
        )
        ends = torch.zeros(2, robot.action_size)
        for gripper in robot.grippers:
            ends[:, gripper.action] = torch.tensor([gripper.closed, gripper.open])
        self.register_buffer("jumping", _jumping(robot, samples))
        self.register_buffer("closed", ends[0])
        self.register_buffer("opened", ends[1])
        self.register_buffer("origin", _origin(robot))
        chunks = samples.actions[samples.begins[:, None] + torch.arange(chunk)] - self._start(samples.states)
        spread = chunks.std(0)
        self.register_buffer("action_mean", chunks.mean(0))
        self.register_buffer("action_spread", torch.maximum(spread, 0.3 * spread.mean(0)).clamp_min(LEAST_SPREAD))
        for name, values in (("state", samples.states), ("scene", samples.scenes)):
            self.register_buffer(f"{name}_mean", values.mean(0))
            self.register_buffer(f"{name}_spread", values.std(0).clamp_min(LEAST_SPREAD))
        gaps = self._gaps(samples.states, samples.scenes)
        self.register_buffer("gap_spread", gaps.std(0).clamp_min(LEAST_SPREAD))
        width = robot.state_size + samples.scenes.shape[1] + 2 * gaps.shape[1]
        self.layers = nn.Sequential(
            nn.Linear(width, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, chunk * robot.action_size),
        )

    def forward(self, state: Tensor, environment_state: Tensor) -> Tensor:
        """(B, chunk, A)."""
        raw = self.raw(state, environment_state)
        actions = raw * self.action_spread + self.action_mean + self._start(state)
        said = torch.where(raw > 0, self.opened, self.closed)
        return torch.where(self.jumping, said, actions)

    def raw(self, state: Tensor, environment_state: Tensor) -> Tensor:
        """The network's own output: actions relative to the state in units of their spread; where grippers jump, the
        log odds that they are sent open."""
        gaps = self._gaps(state, environment_state)
        inputs = [
            (state - self.state_mean) / self.state_spread,
            (environment_state - self.scene_mean) / self.scene_spread,
            gaps / self.gap_spread,
            torch.tanh(gaps / (CLOSE_UP * self.gap_spread)),
        ]
        return self.layers(torch.cat(inputs, dim=-1)).reshape(-1, self.chunk, self.robot.action_size)

    def loss(self, state: Tensor, scene: Tensor, actions: Tensor) -> Tensor:
        """Mean absolute error in units of spread, or cross entropy where grippers jump."""
        raw = self.raw(state, scene)
        wanted = (actions - self._start(state) - self.action_mean) / self.action_spread
        open_share = ((actions - self.closed) / torch.where(self.jumping, self.opened - self.closed, 1.0)).clamp(0, 1)
        entropy = nn.functional.binary_cross_entropy_with_logits(raw, open_share, reduction="none")
        return torch.where(self.jumping, entropy, (raw - wanted).abs()).mean()

    def _start(self, state: Tensor) -> Tensor:
        """What actions are relative to: where the arm is, where they are targets of it."""
        return (state @ self.origin)[:, None]

    def _gaps(self, state: Tensor, scene: Tensor) -> Tensor:
        """From every hand to every place in the scene (object, goal, gate), and from the object to the others."""
        count = 3 * (scene.shape[1] // 3)
        places = scene[:, :count].reshape(-1, 1, count // 3, 3)
        hands = torch.stack([hand(state) for hand in self.hands], dim=1)
        from_hands = (places - hands[:, :, None]).flatten(1)
        from_object = (places[:, :, 1:] - places[:, :, :1]).flatten(1)
        return torch.cat([from_hands, from_object], dim=1)


def _origin(robot: Robot) -> Tensor:
    """``state @ origin`` is, per action, the state of the same name, which it is a target of; zero for motions and
    grippers."""
    origin = torch.zeros(robot.state_size, robot.action_size)
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode == "absolute":
            for column, name in enumerate(group.names, start=part.start):
                origin[robot.state_names.index(name), column] = 1.0
    return origin


def _jumping(robot: Robot, samples: Samples) -> Tensor:
    """Which actions are grippers that are sent open or closed and nothing in between."""
    found = torch.zeros(robot.action_size, dtype=torch.bool)
    for gripper in robot.grippers:
        share = (samples.actions[:, gripper.action] - gripper.closed) / (gripper.open - gripper.closed)
        found[gripper.action] = bool(((share < 1e-3) | (share > 1 - 1e-3)).all())
    return found


def learn(
    demonstrations: Demonstrations, robot: Robot, chunk: int, config: ImitationConfig, report: Report = silent
) -> ChunkNetwork:
    """A network trained on every moment of the demonstrations."""
    samples = gather_samples(demonstrations, robot, chunk)
    generator = torch.Generator().manual_seed(config.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = ChunkNetwork(robot, samples, chunk, config.hidden)
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 200) * 0.5 * (1 + math.cos(math.pi * step / config.steps))
    )
    ahead = torch.arange(chunk)
    for step in range(config.steps):
        if step % REPORT_EVERY == 0:
            report("base policy", step, config.steps, {})
        rows = torch.randint(len(samples.begins), (config.batch_size,), generator=generator)
        states = samples.states[rows]
        noise = torch.randn(states.shape, generator=generator)
        states = states + config.state_noise * network.state_spread * noise
        loss = network.loss(states, samples.scenes[rows], samples.actions[samples.begins[rows][:, None] + ahead])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return network.eval()


def write_policy(network: ChunkNetwork, path: Path) -> None:
    """The network as an ONNX file that ``onnx:FILE`` loads."""
    state, scene = torch.zeros(1, network.robot.state_size), torch.zeros(1, len(network.scene_mean))
    names = ("state", "environment_state", "actions")
    with write_file_atomically(path, overwrite=True) as unfinished, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the newer exporter needs one more package
        torch.onnx.export(
            network,
            (state, scene),
            str(unfinished),
            input_names=list(names[:2]),
            output_names=[names[2]],
            dynamic_axes={name: {0: "batch"} for name in names},
            dynamo=False,
        )
