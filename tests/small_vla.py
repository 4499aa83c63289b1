"""SmolVLA, pi0 and pi0.5 from LeRobot's own code at a fraction of their size, with random weights and no download."""

from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.pi0 import modeling_pi0
from lerobot.policies.pi0.configuration_pi0 import PI0Config
from lerobot.policies.pi05 import modeling_pi05
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from lerobot.processor import tokenizer_processor
from lerobot.utils.constants import ACTION, OBS_STATE
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GemmaForCausalLM,
    PaliGemmaForConditionalGeneration,
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMProcessor,
)
from transformers.models import siglip
from transformers.models.smolvlm import SmolVLMImageProcessor
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor

from small_lerobot import AROUND_START, Loaded, aloha_features

SIDE = 28
"""Height and width of a picture."""
WORDS = ("<pad>", "<unk>", "<bos>", "<eos>", "<fake_token_around_image>", "<global-img>", "<image>", "<end>", "cube")
QUANTILES = {key: {"q01": values["mean"] - 0.05, "q99": values["mean"] + 0.05} for key, values in AROUND_START.items()}
STATISTICS = {key: AROUND_START[key] | QUANTILES[key] for key in (OBS_STATE, ACTION)}
CHUNK: dict[str, Any] = {"chunk_size": 50, "n_action_steps": 24, "push_to_hub": False, "device": "cpu"}


def small_smolvla(folder: Path, **options: Any) -> Loaded:
    """SmolVLA around a SmolVLM of two layers that is written to ``folder``."""
    SmolVLMConfig(
        text_config={
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "vocab_size": 32,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 8,
        },
        scale_factor=2,
        image_token_id=WORDS.index("<image>"),
    ).save_pretrained(folder)
    SmolVLMProcessor(SmolVLMImageProcessor(), _tokenizer(), SmolVLMVideoProcessor()).save_pretrained(folder)
    config = SmolVLAConfig(
        **aloha_features((3, SIDE, SIDE)),
        **CHUNK,
        vlm_model_name=str(folder),
        num_vlm_layers=2,
        resize_imgs_with_padding=(32, 32),
        num_steps=2,
        **options,
    )
    return _loaded(SmolVLAPolicy, config)


def small_pi(version: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Loaded:
    """pi0 or pi05 around a PaliGemma and a Gemma of two layers.

    LeRobot asks for a transformers of its own, whose layers are conditioned on the time step; here they are not, so
    that shapes are right and numbers are not faithful.
    """
    module, config_class = {"pi0": (modeling_pi0, PI0Config), "pi05": (modeling_pi05, PI05Config)}[version]
    _shrink(module, monkeypatch)
    monkeypatch.setattr(tokenizer_processor.AutoTokenizer, "from_pretrained", lambda _: _tokenizer())
    config = config_class(
        **aloha_features((3, SIDE, SIDE)),
        **CHUNK,
        image_resolution=(SIDE, SIDE),
        num_inference_steps=2,
        **options,
    )
    loaded = _loaded(getattr(module, f"{version.upper()}Policy"), config)
    denoise = loaded[0].model.denoise_step
    # LeRobot's transformers reads the cache of the observation without adding to it; the public one adds.
    loaded[0].model.denoise_step = lambda *inputs, **named: denoise(*deepcopy(inputs), **deepcopy(named))
    return loaded


def _shrink(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    gemma = module.GemmaConfig(width=64, depth=2, mlp_dim=64, num_heads=2, num_kv_heads=1, head_dim=32)
    small_vision = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 32, "num_attention_heads": 2}

    def small_paligemma(config: Any) -> PaliGemmaForConditionalGeneration:
        for name, value in {**small_vision, "patch_size": 14, "projection_dim": gemma.width}.items():
            setattr(config.vision_config, name, value)
        config.text_config.vocab_size = config._vocab_size = len(WORDS)
        return PaliGemmaForConditionalGeneration(config)

    def small_expert(config: Any) -> GemmaForCausalLM:
        config.vocab_size = len(WORDS)
        return GemmaForCausalLM(config)

    check = ModuleType("check")
    monkeypatch.setattr(check, "check_whether_transformers_replace_is_installed_correctly", lambda: True, raising=False)
    monkeypatch.setattr(siglip, "check", check, raising=False)
    monkeypatch.setattr(module, "get_gemma_config", lambda variant: gemma)
    monkeypatch.setattr(module, "PaliGemmaForConditionalGeneration", small_paligemma)
    monkeypatch.setattr(module, "GemmaForCausalLM", small_expert)


def _loaded(policy_class: type, config: Any) -> Loaded:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        policy = policy_class(config)
    return policy.eval(), *make_pre_post_processors(config, dataset_stats=STATISTICS)


def _tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        extra_special_tokens={
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "image_token": "<image>",
            "end_of_utterance_token": "<end>",
        },
    )
