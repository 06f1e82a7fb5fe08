"""A model by name or by its ``config.json``."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.shapes import ModelShape
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import Strict, nearest, validate
from autotune.geometry.dtypes import element_bytes
from autotune.geometry.fields import Fields
from autotune.geometry.hf_config import read_config, shape_of

_FOLDER = resources.files("autotune_configs") / "models"


class _ModelFile(Strict):
    """What a file in ``configs/autotune_configs/models`` says."""

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)
    n_parameters: int = Field(gt=0)
    n_parameters_stored: int | None = Field(default=None, gt=0)
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
    facts = _FOLDER / f"{name_or_path}.json"
    if facts.is_file():  # its layers are known, but not all of them are of the kind that this shape can say
        return shape_of(Fields(f"model {name_or_path}", json.loads(facts.read_text("utf-8"))["config"]), name_or_path)
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


def stored_parameters(name_or_path: str) -> int:
    """Weights that a model of such a file keeps in memory: all experts, not only those that one token uses.

    Raises:
        ConfigError: the file cannot be read or breaks a rule.
    """
    if name_or_path in model_names():
        entry = _entry((_FOLDER / f"{name_or_path}.yaml").read_text("utf-8"), f"model {name_or_path}")
    else:
        entry = _entry(read_text(Path(name_or_path), ConfigError), name_or_path)
    return entry.n_parameters_stored or entry.n_parameters


def _entry(text: str, what: str) -> _ModelFile:
    return validate(_ModelFile, parse_mapping(text, ConfigError), ConfigError, what)


def _from_yaml(text: str, what: str, kv_dtype: str | None) -> ModelShape:
    entry = _entry(text, what)
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
