"""The networks as ONNX graphs, built from their weights; onnx itself is needed here only, never on the robot."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from jaxtyping import Shaped
from onnx import TensorProto, helper, numpy_helper

from speedup_patch.maths.momentum import SETTLING
from speedup_patch.observations import command_matrix, feature_size
from speedup_patch.robots import Robot
from speedup_patch.scheduler.inputs import CriticShape

Weights = Mapping[str, Shaped[np.ndarray, "..."]]

OPSET, IR_VERSION = 17, 8
"""Old enough for every onnxruntime of the last years."""


class Graph:
    """An ONNX graph that grows one node at a time; weights are named as in torch's state dictionaries."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Adds a node and returns the names of its outputs."""
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with a single output."""
        return self.node(kind, inputs, **attributes)[0]

    def constant(self, name: str, array: Shaped[np.ndarray, "..."]) -> str:
        """A named array; int64 stays, everything else becomes float32."""
        kind = np.int64 if array.dtype == np.int64 else np.float32
        self.constants[name] = numpy_helper.from_array(np.asarray(array, dtype=kind, order="C"), name)
        return name

    def weight(self, name: str) -> str:
        """One of the network's own arrays."""
        return self.constant(name, self.weights[name])

    def linear(self, x: str, prefix: str) -> str:
        """A linear layer over the last of any number of dimensions."""
        product = self.one("MatMul", x, self.constant(f"{prefix}.transposed", self.weights[f"{prefix}.weight"].T))
        return self.one("Add", product, self.weight(f"{prefix}.bias"))

    def multilayer(self, x: str, prefix: str, activation: str) -> str:
        """Linear layers with an activation in between: ``prefix.0``, ``prefix.2``, ..."""
        places = sorted(
            int(name.removeprefix(f"{prefix}.").removesuffix(".weight"))
            for name in self.weights
            if name.startswith(f"{prefix}.") and name.endswith(".weight")
        )
        for place in places:
            if place != places[0]:
                x = self.one("Relu", x) if activation == "relu" else self.one("Mul", x, self.one("Sigmoid", x))
            x = self.linear(x, f"{prefix}.{place}")
        return x

    def gru(
        self, rows: str, prefix: str, layers: int, lengths: str = "", starts: Sequence[str] = ()
    ) -> tuple[str, str]:
        """(outputs of the last layer (l, N, H), its state after the last row (N, H)) of rows (l, N, I)."""
        last = ""
        for layer in range(layers):
            names = [f"{prefix}.{kind}_{side}_l{layer}" for kind in ("weight", "bias") for side in ("ih", "hh")]
            w_in, w_state, b_in, b_state = (_gates_for_onnx(self.weights[name]) for name in names)
            state = self.weights[names[1]].shape[1]
            inputs = [
                rows,
                self.constant(f"{prefix}.W{layer}", w_in[None]),
                self.constant(f"{prefix}.R{layer}", w_state[None]),
                self.constant(f"{prefix}.B{layer}", np.concatenate([b_in, b_state])[None]),
                lengths,
                starts[layer] if starts else "",
            ]
            outputs, last = self.node("GRU", inputs, 2, hidden_size=state, linear_before_reset=1)
            rows = self.one("Squeeze", outputs, self.axis(1))
        return rows, self.one("Squeeze", last, self.axis(0))

    def axis(self, number: int) -> str:
        """One axis, as the nodes that add and remove axes want it."""
        return self.constant(f"axis_{number}", np.array([number]))

    def scaled(self, x: str, prefix: str) -> str:
        """To zero mean and unit deviation."""
        shifted = self.one("Sub", x, self.weight(f"{prefix}.mean"))
        return self.one("Div", shifted, self.weight(f"{prefix}.std"))

    def unscaled(self, x: str, prefix: str) -> str:
        """Back to the original units."""
        stretched = self.one("Mul", x, self.weight(f"{prefix}.std"))
        return self.one("Add", stretched, self.weight(f"{prefix}.mean"))

    def model(
        self, inputs: Iterable[tuple[str, int, Sequence[str | int]]], output: str, shape: Sequence[str | int]
    ) -> onnx.ModelProto:
        """The finished model; inputs are (name, type, shape), and the one output of this shape is ``output``."""
        self.nodes.append(helper.make_node("Identity", [output], ["output"]))
        graph = helper.make_graph(
            self.nodes,
            "speedup_patch",
            [helper.make_tensor_value_info(name, kind, list(shape)) for name, kind, shape in inputs],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, list(shape))],
            list(self.constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        return model


def _gates_for_onnx(array: Shaped[np.ndarray, "G ..."]) -> Shaped[np.ndarray, "G ..."]:
    """torch stacks a GRU's gates as reset, update, new; ONNX as update, reset, new."""
    reset, update, new = np.split(array, 3)
    return np.concatenate([update, reset, new])


def critic_graph(weights: Weights, shape: CriticShape) -> onnx.ModelProto:
    """The smaller Q of N rows: normalised observations, chunks padded with zeros to the longest, and their lengths."""
    graph = Graph(weights)
    if shape.encoder == "gru":
        rows = graph.one("Transpose", "chunk", perm=[1, 0, 2])
    else:
        share = graph.one(
            "Div",
            graph.one("Cast", "length", to=TensorProto.FLOAT),
            graph.constant("longest", np.array([float(shape.longest)])),
        )
        flat = graph.one("Flatten", "chunk")
        rows = graph.one("Concat", flat, graph.one("Unsqueeze", share, graph.axis(1)), axis=1)
    values: list[str] = []
    for twin in ("first", "second"):
        if shape.encoder == "gru":
            _, chunk = graph.gru(rows, f"{twin}.chunk_encoder.gru", shape.layers, "length")
        else:
            chunk = graph.multilayer(rows, f"{twin}.chunk_encoder.network", "relu")
        observation = graph.multilayer("observation", f"{twin}.observation_encoder", "relu")
        joined = graph.one("Relu", graph.one("Concat", observation, chunk, axis=1))
        values.append(graph.multilayer(joined, f"{twin}.head", "relu"))
    smaller = graph.one("Squeeze", graph.one("Min", *values), graph.axis(1))
    inputs = (
        ("observation", TensorProto.FLOAT, ("N", shape.observation_size)),
        ("chunk", TensorProto.FLOAT, ("N", shape.longest, shape.action_size)),
        ("length", TensorProto.INT32, ("N",)),
    )
    return graph.model(inputs, smaller, ("N",))


def any_step_graph(weights: Weights, robot: Robot, network: Mapping[str, Any]) -> onnx.ModelProto:
    """Features x after each of L actions, for N observations: the GRU world model, normalisation included."""
    graph, x_size = Graph(weights), feature_size(robot)
    layers, hidden = int(network["layers"]), int(network["hidden"])
    commands = _commands(graph, robot, network)
    rows = graph.one("Transpose", commands, perm=[1, 0, 2])
    seen = _network_inputs(graph, x_size, network)
    memory = int(network.get("memory", 0))
    if memory:
        seen = graph.one("Concat", seen, _sent(graph, robot, network), axis=1)
    start = graph.multilayer(seen, "encoder", "silu")
    cut = graph.constant("hidden_sizes", np.full(layers, hidden))
    states = [graph.one("Unsqueeze", part, graph.axis(0)) for part in graph.node("Split", [start, cut], layers, axis=1)]
    outputs, _ = graph.gru(rows, "recurrent", layers, starts=states)
    decoded = graph.multilayer(graph.one("Transpose", outputs, perm=[1, 0, 2]), "decoder", "silu")
    if network.get("shortcut"):
        decoded = graph.one("Add", decoded, _shortcut(graph, commands, x_size, network))
    inputs = _rollout_inputs(robot, memory)
    return graph.model(inputs, _restored(graph, decoded, x_size, network), ("N", "L", x_size))


def _sent(graph: Graph, robot: Robot, network: Mapping[str, Any]) -> str:
    """The last commands side by side; one that was not sent, NaN, counts as the mean of all."""
    scaled = _commands(graph, robot, network, "before")
    missing, mean = graph.one("IsNaN", scaled), graph.constant("mean_command", np.array([0.0]))
    return graph.one("Flatten", graph.one("Where", missing, mean, scaled))


def _shortcut(graph: Graph, commands: str, x_size: int, network: Mapping[str, Any]) -> str:
    """The linear way past the GRU (see ``world_model.network.AnyStepDynamics``)."""
    along, one = graph.constant("along", np.array(1)), graph.constant("one", np.array([1.0]))
    first = graph.one("Gather", commands, graph.constant("first", np.array([0])), axis=2)
    ones = graph.one("Add", graph.one("Mul", first, graph.constant("nothing", np.array([0.0]))), one)
    time = graph.one("CumSum", ones, along)
    observed = graph.one("Unsqueeze", _network_inputs(graph, x_size, network), graph.axis(1))
    kinds = 2 if network["velocity"] else 1
    x, *velocity = graph.node("Split", [observed, graph.constant("kinds", np.full(kinds, x_size))], kinds, axis=2)
    settled = graph.one("Sub", one, graph.one("Pow", graph.constant("settling", np.array([SETTLING])), time))
    ran_on = [graph.one("Mul", part, settled) for part in velocity]
    parts = [graph.one("CumSum", commands, along), commands, ones, time, graph.one("Mul", x, time), *ran_on]
    joined = graph.one("Concat", *parts, axis=2)
    return graph.one("MatMul", joined, graph.constant("shortcut.transposed", graph.weights["shortcut.weight"].T))


def one_step_graph(weights: Weights, robot: Robot, network: Mapping[str, Any]) -> onnx.ModelProto:
    """As ``any_step_graph`` for the MLP world model, which knows one step only: L is 1."""
    graph, x_size = Graph(weights), feature_size(robot)
    observed = graph.one("Unsqueeze", _network_inputs(graph, x_size, network), graph.axis(1))
    joined = graph.one("Concat", observed, _commands(graph, robot, network), axis=2)
    predicted = graph.multilayer(joined, "step", "silu")
    return graph.model(_rollout_inputs(robot), _restored(graph, predicted, x_size, network), ("N", "L", x_size))


def _rollout_inputs(robot: Robot, memory: int = 0) -> list[tuple[str, int, tuple[str | int, ...]]]:
    inputs: list[tuple[str, int, tuple[str | int, ...]]] = [
        ("observation", TensorProto.FLOAT, ("N", 2 * feature_size(robot))),
        ("actions", TensorProto.FLOAT, ("N", "L", robot.action_size)),
    ]
    return [*inputs, ("before", TensorProto.FLOAT, ("N", memory, robot.action_size))] if memory else inputs


def _present(graph: Graph, x_size: int) -> str:
    """x, the first half of the observation."""
    bounds = [graph.constant(name, np.array([value])) for name, value in (("zero", 0), ("x_size", x_size))]
    return graph.one("Slice", "observation", *bounds, graph.axis(1))


def _network_inputs(graph: Graph, x_size: int, network: Mapping[str, Any]) -> str:
    scaled = graph.scaled("observation", "observation_scaling")
    if network["velocity"]:
        return scaled
    bounds = [graph.constant(name, np.array([value])) for name, value in (("zero", 0), ("x_size", x_size))]
    return graph.one("Slice", scaled, *bounds, graph.axis(1))


def _commands(graph: Graph, robot: Robot, network: Mapping[str, Any], commands: str = "actions") -> str:
    if network["relative_actions"]:
        origin = graph.one(
            "MatMul", _present(graph, feature_size(robot)), graph.constant("origin", command_matrix(robot))
        )
        commands = graph.one("Sub", commands, graph.one("Unsqueeze", origin, graph.axis(1)))
    return graph.scaled(commands, "command_scaling")


def _restored(graph: Graph, outputs: str, x_size: int, network: Mapping[str, Any]) -> str:
    change = graph.unscaled(outputs, "target_scaling")
    if not network["residual"]:
        return change
    return graph.one("Add", change, graph.one("Unsqueeze", _present(graph, x_size), graph.axis(1)))
