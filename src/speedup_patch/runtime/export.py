"""Adds to a patch folder what the robot's computer runs: its networks as ONNX graphs."""

from pathlib import Path

from speedup_patch.array_files import load_arrays
from speedup_patch.artefacts import read_json
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot
from speedup_patch.runtime.models import WORLD_MODEL_GRAPH
from speedup_patch.scheduler.files import GRAPH, read_scheduler


def export_scheduler(folder: Path, robot: Robot) -> None:
    """Writes scheduler.onnx beside the scheduler's weights."""
    graphs = _graphs()
    saved = read_scheduler(folder, robot)
    (folder / GRAPH).write_bytes(graphs.critic_graph(saved.weights, saved.shape).SerializeToString())


def export_world_model(folder: Path, robot: Robot) -> None:
    """Writes world_model.onnx beside the weights of a learned world model; a servo model needs none."""
    description = read_json(folder / "world_model.json")
    if description["kind"] == "servo":
        return
    graphs = _graphs()
    build = {"gru": graphs.any_step_graph, "mlp": graphs.one_step_graph}[description["kind"]]
    weights = load_arrays(folder / "world_model.safetensors")
    (folder / WORLD_MODEL_GRAPH).write_bytes(build(weights, robot, description["network"]).SerializeToString())


def _graphs():
    try:
        from speedup_patch.runtime import graphs
    except ImportError as error:
        raise InputError("saving a patch needs onnx: pip install 'speedup-patch[train]'") from error
    return graphs
