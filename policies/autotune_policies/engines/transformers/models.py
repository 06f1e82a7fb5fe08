"""A model to generate with: from a folder, or from a configuration with random weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from autotune.core.errors import StreamingError
from autotune.core.units import bytes_to_gib

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_MOST_OF_MEMORY = 0.8
_SEED = 0


def open_model(path_text: str, dtype: str | None) -> Any:
    """The model in inference mode, on the CUDA device if there is one.

    Args:
        path_text: Folder of a model, or path of a ``config.json``.
        dtype: Element type; None = the configuration's.

    Raises:
        StreamingError: there is no such model, or its weights do not fit in memory.
    """
    path = Path(path_text)
    folder = path.parent if path.is_file() and path.name == "config.json" else path
    if not (folder / "config.json").is_file():
        raise StreamingError(
            "--engine transformers generates with a model in a folder, or with random weights by its config.json",
            got=repr(path_text),
            remedy="give the path of either with --model",
        )
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    chosen = _dtype(dtype, config)
    _require_memory(config, chosen, path_text)
    if any(next(folder.glob(pattern), None) for pattern in _WEIGHTS):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=chosen, local_files_only=True)
    else:
        torch.manual_seed(_SEED)
        model = AutoModelForCausalLM.from_config(config, dtype=chosen)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _dtype(name: str | None, config: Any) -> torch.dtype:
    own = getattr(config.get_text_config(decoder=True), "dtype", None) or torch.float32
    chosen = getattr(torch, name, None) if name else own
    if not isinstance(chosen, torch.dtype) or not chosen.is_floating_point:
        raise StreamingError("--dtype is a floating point type of torch", got=name, remedy="for example bfloat16")
    return chosen


def _require_memory(config: Any, dtype: torch.dtype, name: str) -> None:
    with torch.device("meta"):
        weights = AutoModelForCausalLM.from_config(config, dtype=dtype)
    need_bytes = sum(parameter.nbytes for parameter in weights.parameters())
    if torch.cuda.is_available():
        have_bytes = torch.cuda.mem_get_info()[1]
    else:
        have_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if need_bytes > _MOST_OF_MEMORY * have_bytes:
        raise StreamingError(
            f"the weights take at most {100 * _MOST_OF_MEMORY:.0f} % of the memory",
            got=f"{bytes_to_gib(need_bytes):.1f} GiB of {bytes_to_gib(have_bytes):.1f} GiB for {name}",
            remedy="give a configuration with fewer layers",
        )
