"""The policies a patch can be put around: LeRobot's with their pipelines, and chunk policies exported to ONNX."""

# LeRobot is not in the type checker's environment.
# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportPrivateUsage=false

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.utils import populate_queues
from lerobot.processor import PolicyProcessorPipeline
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_IMAGES, OBS_STATE
from torch import Tensor, nn

from speedup_patch.errors import InputError
from speedup_patch.policies.onnx import OnnxPolicy

Batch = dict[str, Any]
"""What LeRobot's pipelines pass on: tensors and lists with one row per robot, and a few things without rows."""


@runtime_checkable
class BasePolicy(Protocol):
    """A policy for a batch of robots, from raw observations to un-normalised chunks."""

    chunk_length: int | None
    """How many actions of a chunk it executes; None when only its answer tells."""
    action_size: int | None

    def remember(self, batch: Batch) -> None:
        """Sees the observation of one control step; called at every step."""
        ...

    def chunks(self, batch: Batch, rows: Sequence[int]) -> Float[Tensor, "R n A"]:
        """The chunks that these rows of the batch would execute now, un-normalised, on the CPU."""
        ...

    def reset(self) -> None:
        """A new episode begins."""
        ...


class LeRobotBase(nn.Module):
    """A BasePolicy: one of LeRobot's policies between its own pre- and post-processor."""

    def __init__(
        self, policy: PreTrainedPolicy, preprocessor: PolicyProcessorPipeline, postprocessor: PolicyProcessorPipeline
    ) -> None:
        super().__init__()
        refuse_without_chunks(policy)
        self.policy = policy
        self.preprocessor = preprocessor
        self.postprocessor = postprocessor
        self.chunk_length: int | None = policy.config.n_action_steps
        feature = policy.config.action_feature
        self.action_size: int | None = feature.shape[0] if feature is not None else None
        self._seen: Batch | None = None

    def remember(self, batch: Batch) -> None:
        if not keeps_history(self.policy):
            return
        seen = self.preprocessor(batch)
        seen.pop(ACTION, None)
        if self.policy.config.image_features:
            seen[OBS_IMAGES] = torch.stack([seen[key] for key in self.policy.config.image_features], dim=-4)
        self.policy._queues = populate_queues(self.policy._queues, seen)
        self._seen = seen

    def chunks(self, batch: Batch, rows: Sequence[int]) -> Float[Tensor, "R n A"]:
        if self._seen is not None:
            with _history_of(self.policy, rows):
                chunks = self.policy.predict_action_chunk(self._seen)
        else:
            chunks = self.policy.predict_action_chunk(self.preprocessor(take_rows(batch, rows)))
        chunks = chunks[:, : self.policy.config.n_action_steps]
        # Post-processors are written for (batch, A), one action of each robot.
        flat = self.postprocessor(chunks.reshape(-1, chunks.shape[-1]))
        return flat.reshape(*chunks.shape[:2], -1).cpu()

    def reset(self) -> None:
        self.policy.reset()
        self._seen = None


class OnnxBase(nn.Module):
    """A BasePolicy: a chunk policy exported to ONNX, which takes and gives un-normalised values itself."""

    def __init__(self, policy: OnnxPolicy) -> None:
        super().__init__()
        self.policy = policy
        length = policy.metadata.get("chunk_length")
        self.chunk_length: int | None = int(length) if length else None
        self.action_size: int | None = None

    def remember(self, batch: Batch) -> None:
        pass

    def chunks(self, batch: Batch, rows: Sequence[int]) -> Float[Tensor, "R n A"]:
        names = {OBS_STATE: "state", OBS_ENV_STATE: "environment_state"}
        known = {name: batch[key].cpu().numpy() for key, name in names.items() if key in batch}
        chunks = [self.policy.infer({name: values[row] for name, values in known.items()}) for row in rows]
        return torch.stack([torch.from_numpy(chunk).float() for chunk in chunks])

    def reset(self) -> None:
        self.policy.reset()


def take_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """The batch of these robots alone; the batch itself when they are all of them."""
    size = batch_size(batch)
    if list(rows) == list(range(size)):
        return batch
    return {key: _rows_of(value, rows, size) for key, value in batch.items()}


def batch_size(batch: Batch) -> int:
    """How many robots a batch is for."""
    sizes = {len(value) for key, value in batch.items() if isinstance(value, Tensor) and key.startswith("observation.")}
    if len(sizes) != 1:
        raise InputError(f"the observations of a batch must have one row per robot, not {sorted(sizes)} rows")
    return sizes.pop()


def refuse_without_chunks(policy: PreTrainedPolicy) -> None:
    """Raises for policies whose chunks are never executed one after the other, so that there is nothing to shorten."""
    config, name = policy.config, policy.name
    if getattr(config, "temporal_ensemble_coeff", None) is not None:
        raise InputError(
            f"this {name} policy averages overlapping chunks (temporal_ensemble_coeff) and never executes one: "
            "set temporal_ensemble_coeff to null and n_action_steps to the chunk length"
        )
    rtc = getattr(config, "rtc_config", None)
    if rtc is not None and rtc.enabled:
        raise InputError(
            f"this {name} policy uses real-time chunking (rtc_config), which continues the chunk before it at the "
            "policy's own pace: a shortened one would be sped up twice; set rtc_config.enabled to false"
        )
    if not hasattr(config, "n_action_steps"):
        raise InputError(f"a {name} policy has no n_action_steps: it does not execute chunks")
    if not keeps_history(policy) and set(getattr(policy, "_queues", None) or {}) - {ACTION}:
        raise InputError(f"a {name} policy keeps past observations in a way this wrapper does not know how to feed")


def keeps_history(policy: PreTrainedPolicy) -> bool:
    """Whether ``predict_action_chunk`` reads past observations that only ``select_action`` collects."""
    return policy.name == "diffusion"


@contextmanager
def _history_of(policy: PreTrainedPolicy, rows: Sequence[int]) -> Generator[None]:
    """The policy with the past observations of these robots only."""
    complete = policy._queues
    index = list(rows)
    policy._queues = {
        key: [seen if index == list(range(len(seen))) else seen[index] for seen in queue]
        for key, queue in complete.items()
    }
    try:
        yield
    finally:
        policy._queues = complete


def _rows_of(value: Any, rows: Sequence[int], size: int) -> Any:
    if isinstance(value, Tensor):
        return value[list(rows)] if value.ndim > 0 and len(value) == size else value
    if isinstance(value, list) and len(value) == size:
        return [value[row] for row in rows]
    return value
