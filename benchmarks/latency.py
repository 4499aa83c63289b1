"""What a decision costs on one thread: torch eager against the ONNX engine, side by side in one run.

    python benchmarks/latency.py

At paper size (GRU of 3 x 256, rates 2, 3, 4, chunk of 24) and with our defaults (MLP of 128, rates 1 to 4). Weights are
random: they do not change the cost. A decision is all of ``choose``: shortening the chunk for every rate, normalising,
Q of every rate. "torch, rate by rate" evaluates one rate after the other, as one would write it first; "torch" and
"onnxruntime" evaluate all rates as one batch. The guard (nearest remembered moment) is timed apart. Methods take turns
in blocks, so that all see the same machine; of every block the fastest call counts (the rest is other people's work),
and of these the median over blocks.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from speedup_patch import __version__
from speedup_patch.acceleration import accelerate
from speedup_patch.artefacts import write_json, write_text_atomically
from speedup_patch.guard import Guard, describe_chunks, remember
from speedup_patch.maths.normalize import Normalizer
from speedup_patch.observations import command_matrix, feature_size, observe
from speedup_patch.relabel import Rates
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.export import export_scheduler
from speedup_patch.runtime.models import load_rates
from speedup_patch.scheduler.inputs import CriticInputs, CriticShape
from speedup_patch.scheduler.model import TrainedScheduler
from speedup_patch.scheduler.network import TwinCritic

CHUNK, BLOCKS, CALLS = 24, 30, 30
SIZES = {
    "paper": ("gru", 256, 3, (2.0, 3.0, 4.0)),
    "default": ("mlp", 128, 1, (1.0, 2.0, 3.0, 4.0)),
}
OUT = Path(__file__).parent / "results" / "latency"


def random_scheduler(encoder: str, hidden: int, layers: int, values: tuple[float, ...]) -> TrainedScheduler:
    """A scheduler of this size with random weights."""
    rates, size = Rates(values), 2 * feature_size(ALOHA)
    longest = max(len(warp) for warp in rates.warps(CHUNK))
    critic = TwinCritic(CriticShape(size, ALOHA.action_size, longest, hidden, layers, encoder)).eval()
    unit = [Normalizer(np.zeros(count), np.ones(count)) for count in (size, ALOHA.action_size)]
    return TrainedScheduler(critic, CriticInputs(ALOHA, *unit, relative_actions=True), rates)


def random_guard(rng: np.random.Generator) -> Guard:
    """A guard that remembers as many moments as a real one."""
    x = rng.normal(size=(4000, feature_size(ALOHA)))
    chunks = describe_chunks(x, rng.normal(size=(4000, CHUNK, ALOHA.action_size)), command_matrix(ALOHA))
    episodes, folds = np.repeat(np.arange(20), 200), np.arange(20) % 5
    memories = (remember(x, episodes, folds, rng), remember(chunks, episodes, folds, rng))
    return Guard(*memories, np.full(x.shape[1], np.inf), command_matrix(ALOHA))


def rate_by_rate(scheduler: TrainedScheduler, o: np.ndarray, chunk: np.ndarray) -> int:
    """The choice with one call of the network per rate."""
    inputs, values = scheduler.inputs, []
    for warp in scheduler.rates.warps(CHUNK):
        shortened = accelerate(ALOHA, chunk, warp, scheduler.rates.rotations).actions
        with torch.inference_mode():
            encoded = torch.from_numpy(inputs.encode_observations(o))
            actions = torch.from_numpy(inputs.encode_chunks(o, shortened))
            values.append(scheduler.critic.smaller(encoded, actions, torch.tensor([len(warp)])).item())
    return int(np.argmax(values))


def measure(methods: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds per call of each method: the median over blocks of the fastest call in each."""
    fastest: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(BLOCKS):
        for name, call in methods.items():
            times: list[float] = []
            for _ in range(CALLS):
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            fastest[name].append(min(times))
    return {name: 1e3 * float(np.median(values)) for name, values in fastest.items()}


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    state = rng.normal(0, 0.3, (1, ALOHA.state_size))
    o, chunk = observe(ALOHA, state, state + 0.01), rng.normal(0, 0.3, (1, CHUNK, ALOHA.action_size))
    guard = random_guard(rng)
    results: dict[str, dict[str, float]] = {}
    for name, size in SIZES.items():
        scheduler = random_scheduler(*size)
        with tempfile.TemporaryDirectory() as folder:
            scheduler.save(Path(folder))
            export_scheduler(Path(folder), ALOHA)
            engine = load_rates(Path(folder), ALOHA)
        found = measure(
            {
                "torch, rate by rate": lambda s=scheduler: rate_by_rate(s, o, chunk),
                "torch": lambda s=scheduler: s.chooser.choose(o, chunk),
                "onnxruntime": lambda e=engine: e.choose(o, chunk),
                "guard": lambda: guard.reason(o[0], chunk[0]),
            }
        )
        results[name] = {
            **found,
            "onnxruntime / torch": found["onnxruntime"] / found["torch"],
            "onnxruntime / torch, rate by rate": found["onnxruntime"] / found["torch, rate by rate"],
        }
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
