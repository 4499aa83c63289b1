"""What a decision costs on one thread: torch eager against the ONNX engine, side by side in one run.

    python benchmarks/latency.py

At paper size (GRU of 3 x 256, rates 2, 3, 4, chunk of 24) and with our defaults (MLP of 128, retimings on the servo
world model, and the rates 1 to 4 in their place). Weights are random: they do not change the cost. "torch, one by one"
evaluates Q of one option after the other, as one would write it first; "torch" and "onnxruntime" are all of ``choose``,
which takes the options as one batch. "decision" is what the robot pays with onnxruntime, the guard apart: the path at
rate 1 where the options need it, every option's chunk, Q of all, the warp, and the chunk that is then run, its joints
kept up where chunks are retimed ("keeping up" is the time of that alone, for a chunk at rate 3); the mean of a few
moments, since it depends on how many commands are chosen. The guard
(nearest remembered moment) is timed apart, and so is the second opinion that a retiming patch asks for where it would
leave a chunk as it is. Methods of all sizes take turns in blocks, so that all see the same machine; of every
block the fastest call counts (the rest is other people's work), and of these the median over blocks.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from speedup_patch import __version__
from speedup_patch.acceleration import accelerate
from speedup_patch.artefacts import write_json, write_text_atomically
from speedup_patch.baselines import GreedyMpc
from speedup_patch.candidates import Choices, Options, Rates, Retimings, bind, shorten_all
from speedup_patch.guard import Guard, describe_chunks, remember
from speedup_patch.keeping_up import KeepingUp
from speedup_patch.limits import ArmLimits, FingerScale, GripperLimits, Limits, StrokeLimits
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import command_matrix, feature_size, observe
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.export import export_scheduler
from speedup_patch.runtime.models import load_chooser
from speedup_patch.scheduler.chooser import LearnedScheduler
from speedup_patch.scheduler.inputs import CriticInputs, CriticShape
from speedup_patch.scheduler.model import TrainedScheduler
from speedup_patch.scheduler.network import TwinCritic
from speedup_patch.warp import uniform_warp
from speedup_patch.world_model.servo import Servo, ServoWorldModel

CHUNK, BLOCKS, CALLS, MOMENTS = 24, 30, 30, 5
SIZES: dict[str, tuple[str, int, int, Choices]] = {
    "paper": ("gru", 256, 3, Rates((2.0, 3.0, 4.0))),
    "default, rates": ("mlp", 128, 1, Rates()),
    "default, retimings": ("mlp", 128, 1, Retimings()),
}
STROKE = StrokeLimits(delay=8.0, speed=0.1, strokes=20)
LIMITS = Limits(
    arms=(ArmLimits(speed=0.01, turn=0.04, lag=2.0, brisk=0.009),) * 2,
    joints=(0.05,) * ALOHA.action_size,
    grippers=(GripperLimits(FingerScale((1.0,), 0.0, 1.0), STROKE, STROKE),) * 2,
    pulls=(0.1,) * ALOHA.action_size,
)
"""Of the size that ALOHA's demonstrations show."""
OUT = Path(__file__).parent / "results" / "latency"


def random_scheduler(encoder: str, hidden: int, layers: int, choices: Choices) -> TrainedScheduler:
    """A scheduler of this size with random weights."""
    size = 2 * feature_size(ALOHA)
    longest = CHUNK if isinstance(choices, Retimings) else max(len(warp) for warp in choices.warps(CHUNK))
    critic = TwinCritic(CriticShape(size, ALOHA.action_size, longest, hidden, layers, encoder)).eval()
    unit = [Normalizer(np.zeros(count), np.ones(count)) for count in (size, ALOHA.action_size)]
    return TrainedScheduler(critic, CriticInputs(ALOHA, *unit, relative_actions=True), choices)


def damped_servo() -> ServoWorldModel:
    """Joints that follow their commands with some friction, and fingers that may meet something."""
    count, fingers = len(ALOHA.drives), {gripper.action for gripper in ALOHA.grippers}
    law = Servo(*(np.full(count, value) for value in (0.3, 0.8, 0.1, 0.5, 0.01, 0.0)))
    held = np.array([-10.0 if action in fingers else np.nan for action in ALOHA.drives])
    return ServoWorldModel(ALOHA, law, ALOHA.action_low, ALOHA.action_high, held)


def random_guard(rng: np.random.Generator) -> Guard:
    """A guard that remembers as many moments as a real one."""
    x = rng.normal(size=(4000, feature_size(ALOHA)))
    chunks = describe_chunks(x, rng.normal(size=(4000, CHUNK, ALOHA.action_size)), command_matrix(ALOHA))
    episodes, folds = np.repeat(np.arange(20), 200), np.arange(20) % 5
    memories = (remember(x, episodes, folds, rng), remember(chunks, episodes, folds, rng))
    return Guard(*memories, np.full(x.shape[1], np.inf), command_matrix(ALOHA))


def one_by_one(scheduler: TrainedScheduler, o: np.ndarray, options: Options) -> int:
    """The choice with one call of the network per option."""
    inputs, values = scheduler.inputs, []
    for chunk, length in zip(options.chunks[0], options.lengths[0], strict=True):
        with torch.inference_mode():
            encoded = torch.from_numpy(inputs.encode_observations(o))
            actions = torch.from_numpy(inputs.encode_chunks(o, chunk[None, :length]))
            values.append(scheduler.critic.smaller(encoded, actions, torch.tensor([int(length)])).item())
    return int(np.argmax(values))


def decide(scheduler: LearnedScheduler, keep_up: KeepingUp | None, o: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    """What the robot runs."""
    warp = scheduler.schedule(o, chunk)
    actions = accelerate(ALOHA, chunk, warp, scheduler.candidates.choices.merging).actions
    return actions if keep_up is None else keep_up.pull(warp, actions)


def smooth_moment(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An observation and a chunk that moves as people do, so that retimings differ."""
    state = rng.normal(0, 0.3, (1, ALOHA.state_size))
    phase = np.linspace(0, 1, CHUNK)[:, None] + rng.uniform(0, 6, ALOHA.action_size)
    return observe(ALOHA, state, state + 0.001), state[:, None] + 0.1 * (np.sin(phase) - np.sin(phase[:1]))[None]


def measure(methods: dict[tuple[str, str], Callable[[], object]]) -> dict[tuple[str, str], float]:
    """Milliseconds per call of each method: the median over blocks of the fastest call in each."""
    fastest: dict[tuple[str, str], list[float]] = {name: [] for name in methods}
    for _ in range(BLOCKS):
        for name, call in methods.items():
            times: list[float] = []
            for _ in range(CALLS):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            fastest[name].append(min(times))
    return {name: 1e3 * float(np.median(values)) for name, values in fastest.items()}


def find_methods(size: tuple[str, int, int, Choices], guard: Guard) -> dict[str, Callable[[], object]]:
    """What is timed at one size."""
    moments = [smooth_moment(np.random.default_rng(seed)) for seed in range(MOMENTS)]
    o, chunk = moments[0]
    torch.manual_seed(0)
    scheduler, world_model = random_scheduler(*size), damped_servo()
    candidates = bind(scheduler.choices, ALOHA, LIMITS)
    with tempfile.TemporaryDirectory() as folder:
        scheduler.save(Path(folder))
        export_scheduler(Path(folder), ALOHA)
        chooser, _ = load_chooser(Path(folder), ALOHA)
    paths = paths_at_rate_one(world_model, o, chunk)
    options = shorten_all(ALOHA, candidates, paths, chunk)
    learned = LearnedScheduler(chooser, candidates, world_model)
    greedy = GreedyMpc(world_model, candidates, 0.02, "in_step", LIMITS)
    keep_up = KeepingUp(world_model, LIMITS.pulls)
    hurried = replace(uniform_warp(CHUNK, 3.0), path=paths[0])
    actions = accelerate(ALOHA, chunk[0], hurried).actions
    kept_up = keep_up if isinstance(scheduler.choices, Retimings) else None
    return {
        "torch, one by one": lambda: one_by_one(scheduler, o, options),
        "torch": lambda: scheduler.chooser.choose(o, options),
        "onnxruntime": lambda: chooser.choose(o, options),
        "path at rate 1": lambda: paths_at_rate_one(world_model, o, chunk),
        "options": lambda: shorten_all(ALOHA, candidates, paths, chunk),
        "keeping up": lambda: keep_up.pull(hurried, actions),
        "decision": lambda: [decide(learned, kept_up, o[0], chunk[0]) for o, chunk in moments],
        "second opinion": lambda: greedy.schedule(o[0], chunk[0]),
        "guard": lambda: guard.reason(o[0], chunk[0]),
    }


def main() -> None:
    torch.set_num_threads(1)
    guard = random_guard(np.random.default_rng(0))
    methods = {name: find_methods(size, guard) for name, size in SIZES.items()}
    times = measure({(size, name): call for size, calls in methods.items() for name, call in calls.items()})
    results = {size: {name: times[size, name] for name in calls} for size, calls in methods.items()}
    for found in results.values():
        found["decision"] /= MOMENTS
    for found in results.values():
        found["onnxruntime / torch"] = found["onnxruntime"] / found["torch"]
        found["onnxruntime / torch, one by one"] = found["onnxruntime"] / found["torch, one by one"]
        found["decision / that over rates"] = found["decision"] / results["default, rates"]["decision"]
        found["decision / the paper's"] = found["decision"] / results["paper"]["decision"]
    versions = {"speedup_patch": __version__, "torch": torch.__version__, "onnxruntime": onnxruntime.__version__}
    document = {
        "command": "python benchmarks/latency.py",
        "versions": {**versions, "python": platform.python_version()},
        "blocks": BLOCKS,
        "calls_per_block": CALLS,
        "milliseconds": results,
    }
    write_json(OUT.with_suffix(".json"), document)
    write_text_atomically(OUT.with_suffix(".md"), markdown(results))
    print(markdown(results))


def markdown(results: dict[str, dict[str, float]]) -> str:
    """The figures as a table."""
    columns = list(next(iter(results.values())))
    lines = [
        "One decision on one thread, by `python benchmarks/latency.py`. Milliseconds depend on the machine and on what "
        "else runs on it; read the ratios.",
        "",
        "| | " + " | ".join(column if "/" in column else f"{column}, ms" for column in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [
        f"| {name} | " + " | ".join(f"{row[column]:.3f}" for column in columns) + " |" for name, row in results.items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
