"""The pipelines that LeRobot's commands put around a patched policy, which has the base policy's own inside."""

# LeRobot is not in the type checker's environment. The name of this file is LeRobot's convention for policies.
# pyright: reportMissingImports=false, reportUnknownParameterType=false

from typing import Any

from lerobot.processor import (
    AddBatchDimensionProcessorStep,
    DeviceProcessorStep,
    PolicyProcessorPipeline,
    RenameObservationsProcessorStep,
)
from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action
from lerobot.utils.constants import POLICY_POSTPROCESSOR_DEFAULT_NAME, POLICY_PREPROCESSOR_DEFAULT_NAME

from speedup_patch.lerobot.configuration_speedup_patch import SpeedupPatchConfig


def make_speedup_patch_pre_post_processors(
    config: SpeedupPatchConfig, dataset_stats: dict[str, Any] | None = None
) -> tuple[PolicyProcessorPipeline, PolicyProcessorPipeline]:
    """Pipelines that change no number: observations are renamed, batched and moved, actions come as they are.

    ``dataset_stats`` is part of LeRobot's call; the base policy brings its own.
    """
    preprocessor = PolicyProcessorPipeline(
        steps=[
            RenameObservationsProcessorStep(rename_map=config.rename_map),
            AddBatchDimensionProcessorStep(),
            DeviceProcessorStep(device=config.device),
        ],
        name=POLICY_PREPROCESSOR_DEFAULT_NAME,
    )
    postprocessor = PolicyProcessorPipeline(
        steps=[DeviceProcessorStep(device="cpu")],
        name=POLICY_POSTPROCESSOR_DEFAULT_NAME,
        to_transition=policy_action_to_transition,
        to_output=transition_to_policy_action,
    )
    return preprocessor, postprocessor
