"""LeRobot's ACT and what goes with it, importable also where torchvision's compiled operators cannot be loaded."""

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from stand_in_packages import stand_in_for_unused_packages


def declare_missing_operators() -> torch.library.Library | None:
    """Declare the two operators that `import torchvision` asks for when its binary is built for another torch.

    A torchvision for CUDA beside a torch for CPU is such a pair. ACT without cameras calls neither operator.
    """
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torchvision is not installed; `make lerobot-env` makes an environment that has it")
    try:
        torch.ops.load_library(Path(spec.origin).with_name("_C.so"))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


_operators = declare_missing_operators()  # kept: the declarations vanish with the object that made them
stand_in_for_unused_packages()

from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature  # noqa: E402
from lerobot.policies.act.configuration_act import ACTConfig  # noqa: E402
from lerobot.policies.act.modeling_act import ACTPolicy  # noqa: E402
from lerobot.policies.act.processor_act import make_act_pre_post_processors  # noqa: E402
from lerobot.processor import NormalizerProcessorStep, PolicyProcessorPipeline  # noqa: E402
from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action  # noqa: E402
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_STATE  # noqa: E402

Statistics = dict[str, dict[str, torch.Tensor]]  # feature name -> "mean" | "std" -> (D,)

LEROBOT_VERSION = version("lerobot")
ACTION_IS_PAD = "action_is_pad"
TRAINING_RECORD = "training.json"


def make_config(dimensions: dict[str, int], **options: float) -> ACTConfig:
    """An ACT without cameras for features of the given dimensions, with further options of ACTConfig, on the CPU."""
    mean_std = NormalizationMode.MEAN_STD
    return ACTConfig(
        input_features={
            OBS_STATE: PolicyFeature(FeatureType.STATE, (dimensions[OBS_STATE],)),
            OBS_ENV_STATE: PolicyFeature(FeatureType.ENV, (dimensions[OBS_ENV_STATE],)),
        },
        output_features={ACTION: PolicyFeature(FeatureType.ACTION, (dimensions[ACTION],))},
        # ACT's own default leaves ENV out, which would feed object poses to the network un-normalised.
        normalization_mapping={"STATE": mean_std, "ENV": mean_std, "ACTION": mean_std},
        pretrained_backbone_weights=None,
        push_to_hub=False,
        device="cpu",
        **options,
    )


def save_policy(policy: ACTPolicy, statistics: Statistics, folder: Path) -> None:
    """Write a LeRobot policy folder: weights, configuration, and both processors with their statistics."""
    policy.cpu()
    policy.save_pretrained(folder)
    for processor in make_act_pre_post_processors(policy.config, statistics):
        processor.save_pretrained(folder)


def load_policy(folder: Path) -> tuple[ACTPolicy, PolicyProcessorPipeline, PolicyProcessorPipeline]:
    """The policy in `folder` with its pre- and post-processor, all on the CPU."""
    policy = ACTPolicy.from_pretrained(folder)
    preprocessor = PolicyProcessorPipeline.from_pretrained(folder, config_filename="policy_preprocessor.json")
    postprocessor = PolicyProcessorPipeline.from_pretrained(
        folder,
        config_filename="policy_postprocessor.json",
        to_transition=policy_action_to_transition,
        to_output=transition_to_policy_action,
    )
    return policy, preprocessor, postprocessor


def find_normalizer(preprocessor: PolicyProcessorPipeline) -> NormalizerProcessorStep:
    """The step of a pre-processor that normalises."""
    return next(step for step in preprocessor.steps if isinstance(step, NormalizerProcessorStep))
