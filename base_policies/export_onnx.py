"""Make one ONNX file of a trained ACT folder: `python base_policies/export_onnx.py DIR --env ENV --out FILE.onnx`."""

import argparse
import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from lerobot_act import (
    ACTION,
    OBS_ENV_STATE,
    OBS_STATE,
    TRAINING_RECORD,
    ACTPolicy,
    NormalizerProcessorStep,
    Statistics,
    find_normalizer,
    load_policy,
)
from torch import Tensor, nn

OPSET = 18
LARGEST_ERROR = 1e-4  # in the actions' own unit
LARGEST_FILE = 4_000_000  # bytes


class RawAct(nn.Module):
    """ACT from raw observations to raw actions: the processors' arithmetic around the network, latent at zero."""

    def __init__(self, policy: ACTPolicy, normalizer: NormalizerProcessorStep) -> None:
        super().__init__()
        self.network = policy.model
        statistics = read_statistics(normalizer)
        for name, prefix in ((OBS_STATE, "state"), (OBS_ENV_STATE, "environment_state"), (ACTION, "action")):
            scale = statistics[name]["std"] + (0.0 if name == ACTION else normalizer.eps)
            self.register_buffer(f"{prefix}_mean", statistics[name]["mean"])
            self.register_buffer(f"{prefix}_scale", scale)

    def forward(self, state: Tensor, environment_state: Tensor) -> Tensor:
        """(B, S) and (B, E) to (B, chunk, A), all in their own units."""
        observation = {
            OBS_STATE: (state - self.state_mean) / self.state_scale,
            OBS_ENV_STATE: (environment_state - self.environment_state_mean) / self.environment_state_scale,
        }
        return self.network(observation)[0] * self.action_scale + self.action_mean


def read_statistics(normalizer: NormalizerProcessorStep) -> Statistics:
    """The mean and standard deviation of each feature that a normaliser holds."""
    statistics: Statistics = {}
    for key, values in normalizer.state_dict().items():
        feature, _, name = key.rpartition(".")
        statistics.setdefault(feature, {})[name] = values
    return statistics


def draw_observations(statistics: Statistics, count: int, rng: np.random.Generator) -> dict[str, Tensor]:
    """Raw observations, twice as spread as the demonstrations."""
    observations: dict[str, Tensor] = {}
    for name in (OBS_STATE, OBS_ENV_STATE):
        mean, std = statistics[name]["mean"].numpy(), statistics[name]["std"].numpy()
        observations[name] = torch.from_numpy(rng.normal(mean, 2 * std, (count, len(mean))).astype(np.float32))
    return observations


def write_onnx(module: RawAct, observations: dict[str, Tensor], metadata: dict[str, str], path: Path) -> None:
    """Export with a free batch size into one file that carries `metadata`."""
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        module.eval(),
        (observations[OBS_STATE], observations[OBS_ENV_STATE]),
        input_names=["state", "environment_state"],
        output_names=["actions"],
        dynamic_shapes={"state": {0: batch}, "environment_state": {0: batch}},
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    assert program is not None  # what the dynamo exporter returns
    model = program.model_proto
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.initializer, *model.graph.input, model.graph):
        part.ClearField("metadata_props")  # the exporter's notes: stack traces with the paths of this machine
        part.ClearField("doc_string")
    onnx.helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def describe(record: dict[str, object], env: str, policy: ACTPolicy) -> dict[str, str]:
    """What the ONNX file says about itself: one text per key, lists as JSON."""
    config = policy.config
    return {
        "kind": "act",
        "chunk_length": str(config.chunk_size),
        "robot": str(record["robot"]),
        "env": env,
        "control_hz": f"{record['control_hz']:g}",
        "tasks": json.dumps(record["tasks"]),
        "training_command": str(record["command"]),
        "training_steps": str(record["config"]["steps"]),
        "held_out_l1": f"{record['measured']['held_out_l1']:.4g}",
        "data_sha256": str(record["data_sha256"]),
        "lerobot_version": str(record["lerobot_version"]),
    }


def open_session(path: Path) -> onnxruntime.InferenceSession:
    """The file in onnxruntime on one CPU thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, observations: dict[str, Tensor]) -> np.ndarray:
    """Chunks (B, chunk, A) from raw observations."""
    inputs = {"state": observations[OBS_STATE].numpy(), "environment_state": observations[OBS_ENV_STATE].numpy()}
    return session.run(["actions"], inputs)[0]


def measure_latency(session: onnxruntime.InferenceSession, observations: dict[str, Tensor], calls: int = 300) -> float:
    """Median milliseconds for one observation."""
    single = {name: values[:1] for name, values in observations.items()}
    durations: list[float] = []
    for _ in range(calls):
        started = time.perf_counter()
        run(session, single)
        durations.append(time.perf_counter() - started)
    return 1e3 * float(np.median(durations))


def main() -> None:
    """Export, compare with LeRobot's own pipeline, and put the file in place only if both agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", type=Path, help="folder that train_act.py wrote")
    parser.add_argument("--env", required=True, help="environment the policy is for, as `sup eval` names it")
    parser.add_argument("--out", type=Path, required=True, help="ONNX file to write")
    arguments = parser.parse_args()
    logging.getLogger("onnxscript").setLevel(logging.ERROR)  # it warns of every constant that it leaves unfolded

    policy, preprocessor, postprocessor = load_policy(arguments.policy)
    record = json.loads((arguments.policy / TRAINING_RECORD).read_text())
    normalizer = find_normalizer(preprocessor)
    observations = draw_observations(read_statistics(normalizer), 64, np.random.default_rng(0))
    partial = arguments.out.with_name(arguments.out.name + ".partial")
    write_onnx(RawAct(policy, normalizer), observations, describe(record, arguments.env, policy), partial)

    expected = postprocessor(policy.predict_action_chunk(preprocessor(dict(observations)))).numpy()
    session = open_session(partial)
    error = float(np.abs(run(session, observations) - expected).max())
    latency, size = measure_latency(session, observations), partial.stat().st_size
    print(f"{arguments.out}: largest error {error:.2e}, {latency:.2f} ms a chunk on one thread, {size / 1e6:.2f} MB")
    if error > LARGEST_ERROR or size > LARGEST_FILE:
        partial.unlink()
        sys.exit(f"not written: the error may be {LARGEST_ERROR:g} and the file {LARGEST_FILE / 1e6:g} MB at most")
    partial.rename(arguments.out)


if __name__ == "__main__":
    main()
