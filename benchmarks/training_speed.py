"""How fast the paper-size networks train: `python benchmarks/training_speed.py --data FILE.npz --out FILE.json`."""

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from speedup_patch import __version__
from speedup_patch.candidates import bind
from speedup_patch.datasets import read_demonstrations
from speedup_patch.limits import read_limits
from speedup_patch.presets import PRESETS
from speedup_patch.relabel import relabel
from speedup_patch.robots import ALOHA
from speedup_patch.scheduler.training import IqlLearner, fit_inputs
from speedup_patch.training import Learner, batch_indices, choose_device
from speedup_patch.world_model.model import NetworkWorldModel
from speedup_patch.world_model.training import DynamicsLearner, build_dynamics
from speedup_patch.world_model.windows import Windows


def steps_per_second(learner: Learner, samples: int, batch_size: int, steps: int, device: torch.device) -> float:
    """Gradient steps a second, after a warm-up; batches are drawn beforehand."""
    warm_up = max(steps // 10, 3)
    batches = [
        torch.from_numpy(batch_indices(samples, batch_size, 0, step)).to(device) for step in range(warm_up + steps)
    ]
    for batch in batches[:warm_up]:
        learner.update(batch)
    started = synchronised_time(device)
    for batch in batches[warm_up:]:
        learner.update(batch)
    return steps / (synchronised_time(device) - started)


def synchronised_time(device: torch.device) -> float:
    """Seconds, read once the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Measures and writes one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    config = replace(PRESETS["bigym"], states=4000)
    loop = config.scheduler.loop
    training, held_out = read_demonstrations(arguments.data).split(0.1, np.random.default_rng(0))

    windows = [
        Windows(ALOHA, part, config.world_model.resolved_horizon(config.chunk_length), device)
        for part in (training, held_out)
    ]
    model = DynamicsLearner(build_dynamics("gru", ALOHA, config.world_model, 0), *windows, loop, device)
    figures = {
        "world_model_steps_per_second": steps_per_second(
            model, len(windows[0]), loop.batch_size, arguments.steps, device
        )
    }
    world_model = NetworkWorldModel(ALOHA, "gru", model.dynamics)

    limits = read_limits(ALOHA, training)

    def label(part):
        return relabel(
            world_model,
            part,
            bind(config.choices, ALOHA, limits),
            limits=limits,
            measure=config.measure,
            chunk_length=config.chunk_length,
            epsilon=config.epsilon,
            penalty=config.penalty,
            rng=np.random.default_rng(0),
            accelerated_starts=False,
            states=config.states,
        )

    label(held_out)
    started = synchronised_time(device)
    transitions = label(training)
    figures["labelled_states_per_second"] = len(transitions.rewards) / (synchronised_time(device) - started)
    inputs = fit_inputs(ALOHA, transitions, config.scheduler.relative_actions)
    learner = IqlLearner(transitions, label(held_out), inputs, config.scheduler, device)
    figures["iql_steps_per_second"] = steps_per_second(
        learner, learner.data.samples, loop.batch_size, arguments.steps, device
    )
    document = {
        "networks": "GRU 3 x 256, batch 512, chunk 24",
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
        "speedup_patch": __version__,
        "steps": arguments.steps,
        **figures,
    }
    arguments.out.write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
