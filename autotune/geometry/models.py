"""A model by name or by its ``config.json``."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.shapes import ModelShape
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import Strict, nearest, validate
from autotune.geometry.dtypes import element_bytes
from autotune.geometry.hf_config import read_config

_FOLDER = resources.files("autotune_configs") / "models"


class _ModelFile(Strict):
    """What a file in ``configs/autotune_configs/models`` says."""

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)
    n_parameters: int = Field(gt=0)
    n_layers: int = Field(gt=0)
    n_heads: int = Field(gt=0)
    n_kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    kv_dtype: str


def model_names() -> tuple[str, ...]:
    """Names of the models that come along, sorted."""
    return tuple(sorted(f.name.removesuffix(".yaml") for f in _FOLDER.iterdir() if f.name.endswith(".yaml")))


def load_model(name_or_path: str, *, kv_dtype: str | None = None) -> ModelShape:
    """The shape of a model.

    Args:
        name_or_path: A name from :func:`model_names`, a Hugging Face ``config.json``, the folder it lies in, or a
            YAML file written like those in ``configs/autotune_configs/models``.
        kv_dtype: Element type of the KV cache where it is not that of the weights, such as ``fp8``.

    Raises:
        ConfigError: no such model, or an architecture whose KV this part does not know how to count.
    """
    if name_or_path in model_names():
        return _from_yaml((_FOLDER / f"{name_or_path}.yaml").read_text("utf-8"), f"model {name_or_path}", kv_dtype)
    path = Path(name_or_path)
    if path.is_dir():
        path /= "config.json"
    if not path.is_file():
        raise ConfigError(
            "a model is a known name or the path of a config.json",
            got=repr(name_or_path),
            remedy=nearest(name_or_path, model_names()),
        )
    if path.suffix in {".yaml", ".yml"}:
        return _from_yaml(read_text(path, ConfigError), str(path), kv_dtype)
    return read_config(path, kv_dtype)


def _from_yaml(text: str, what: str, kv_dtype: str | None) -> ModelShape:
    entry = validate(_ModelFile, parse_mapping(text, ConfigError), ConfigError, what)
    dtype = kv_dtype or entry.kv_dtype
    return ModelShape(
        name=entry.name,
        n_parameters=entry.n_parameters,
        n_layers=entry.n_layers,
        n_heads=entry.n_heads,
        n_kv_heads=entry.n_kv_heads,
        head_dim=entry.head_dim,
        kv_dtype=dtype,
        kv_element_bytes=element_bytes(dtype),
    )
