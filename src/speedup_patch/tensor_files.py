"""Safetensors files of torch tensors, there whole or not at all."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.errors import InputError


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes one safetensors file that is there whole or not at all, even when the process is killed."""
    on_cpu = {name: tensor.detach().to("cpu").clone().contiguous() for name, tensor in tensors.items()}
    with write_file_atomically(path, overwrite=True) as unfinished:
        save_file(on_cpu, unfinished, metadata)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())


def load_tensors(path: Path, device: torch.device) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """(tensors, metadata) of a safetensors file; a file that is cut short or something else is refused."""
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {error}") from error
