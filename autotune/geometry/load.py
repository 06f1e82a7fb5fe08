"""A model's geometry by name, or from its ``config.json``."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.strict_yaml import read_text
from autotune.core.validation import Strict, nearest, validate
from autotune.geometry.attention import FullAttention
from autotune.geometry.families import KNOWN_FIELDS, LAYERS_OF
from autotune.geometry.families.context import Reading
from autotune.geometry.fields import Fields
from autotune.geometry.geometry import ModelGeometry, Weights
from autotune.geometry.hf_config import dtype_of_weights, json_object, refuse_other_kv
from autotune.geometry.kinds import Allocator
from autotune.geometry.latent import FP8_DS_MLA
from autotune.geometry.models import load_model, model_names, stored_parameters
from autotune.geometry.parameters import FAMILIES, count_parameters
from autotune.geometry.precision import Precision, precision

_FOLDER = resources.files("autotune_configs") / "models"
_WEIGHT_INDEX = "model.safetensors.index.json"
_DTYPE_FIELDS = ("dtype", "torch_dtype")
_BYTES_PER_WEIGHT = 2


class _ModelFacts(Strict):
    """What a JSON file in ``configs/autotune_configs/models`` says besides the model's own configuration."""

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)
    stored_parameters: int = Field(gt=0)
    active_parameters: int = Field(gt=0)
    bits_per_weight: float = Field(gt=0.0, le=32.0)
    weights_source: str = Field(min_length=1)
    config: dict[str, object]


def geometry_names() -> tuple[str, ...]:
    """Names of all models that come along, sorted."""
    facts = (f.name.removesuffix(".json") for f in _FOLDER.iterdir() if f.name.endswith(".json"))
    return tuple(sorted((*model_names(), *facts)))


def load_geometry(
    name_or_path: str, *, kv_dtype: str | None = None, allocator: Allocator = Allocator.VLLM
) -> ModelGeometry:
    """What a model keeps of the past.

    Args:
        name_or_path: A name from :func:`geometry_names`, a Hugging Face ``config.json``, the folder it lies in, or a
            YAML file written like those in ``configs/autotune_configs/models``.
        kv_dtype: Format of the cache where it is not the type of the weights, such as ``fp8`` or ``kivi2_g32``.
        allocator: Who allocates the cache.

    Raises:
        ConfigError: no such model, or a family or type of layer that is not known here; it is named.
    """
    if name_or_path in geometry_names() and name_or_path not in model_names():
        return _from_facts(name_or_path, kv_dtype, allocator)
    path = Path(name_or_path)
    if name_or_path in model_names() or path.suffix in {".yaml", ".yml"}:
        return _from_shape(name_or_path, kv_dtype)
    if path.is_dir():
        path /= "config.json"
    if not path.is_file():
        raise ConfigError(
            "a model is a known name or the path of a config.json",
            got=repr(name_or_path),
            remedy=nearest(name_or_path, geometry_names()),
        )
    fields = Fields(str(path), json_object(path))
    found = geometry_of(fields, _name(fields, path), kv_dtype, allocator, _counted(_text_part(fields)))
    return found if found.weights.size_bytes else _with_index(found, path.parent / _WEIGHT_INDEX)


def geometry_of(
    config: Fields,
    name: str,
    kv_dtype: str | None = None,
    allocator: Allocator = Allocator.VLLM,
    weights: Weights | None = None,
) -> ModelGeometry:
    """What the model of a configuration keeps of the past.

    Args:
        config: Fields of a ``config.json``; those of the text part count where the model has several.
        name: What to call the model.
        kv_dtype: Format of the cache where it is not the type of the weights.
        allocator: Who allocates the cache.
        weights: Its weights, where known.

    Raises:
        ConfigError: a field is missing or no dimension, or the family or a type of layer is not known.
    """
    text = _text_part(config)
    family = text.get("model_type")
    if not isinstance(family, str) or family not in LAYERS_OF:
        text.refuse("model_type", "must be a family whose layers are known", nearest(str(family), LAYERS_OF))
    dtype = kv_dtype if kv_dtype and kv_dtype != FP8_DS_MLA else dtype_of_weights(_typed(config, text))
    refuse_other_kv(text, known=KNOWN_FIELDS.get(family, ()))
    reading = Reading(text, _precision(text, dtype), allocator)
    layers, n_heads = LAYERS_OF[family](reading), reading.n_heads
    geometry = ModelGeometry(
        name=name,
        layers=layers,
        n_heads=n_heads,
        head_dim=text.count("head_dim", default=max(1, text.count("hidden_size") // n_heads)),
        kv_dtype=dtype,
        weights=weights or Weights(None, None, None),
    )
    return geometry.in_precision(FP8_DS_MLA) if kv_dtype == FP8_DS_MLA else geometry


def _precision(config: Fields, dtype: str) -> Precision:
    chosen = precision(dtype)
    # A state or a group that does not come out even would be a guess about the padding of some kernel.
    head_dim = config.get("head_dim")
    if chosen.group_values and isinstance(head_dim, int) and head_dim % min(chosen.group_values, 32):
        config.refuse("head_dim", f"must be a multiple of the groups of {chosen.name}", got=head_dim)
    return chosen


def _text_part(config: Fields) -> Fields:
    """The decoder's own fields, where a model has several parts."""
    part = config.get("text_config")
    if not isinstance(part, dict):
        return config
    return Fields(f"{config.name}: text_config", part)


def _typed(outer: Fields, text: Fields) -> Fields:
    return text if any(text.get(field) is not None for field in _DTYPE_FIELDS) else outer


def _from_facts(name: str, kv_dtype: str | None, allocator: Allocator) -> ModelGeometry:
    tree = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    facts = validate(_ModelFacts, tree, ConfigError, f"model {name}")
    size_bytes = round(facts.stored_parameters * facts.bits_per_weight / 8)
    weights = Weights(facts.stored_parameters, facts.active_parameters, size_bytes)
    return geometry_of(Fields(f"model {name}", facts.config), facts.name, kv_dtype, allocator, weights)


def _from_shape(name_or_path: str, kv_dtype: str | None) -> ModelGeometry:
    shape = load_model(name_or_path)
    stored = stored_parameters(name_or_path)
    values = precision(kv_dtype or shape.kv_dtype)
    return ModelGeometry(
        name=shape.name,
        layers=(FullAttention(shape.n_kv_heads, shape.head_dim, shape.head_dim, values),) * shape.n_layers,
        n_heads=shape.n_heads,
        head_dim=shape.head_dim,
        kv_dtype=values.name,
        weights=Weights(stored, shape.n_parameters, _BYTES_PER_WEIGHT * stored),
    )


def _counted(config: Fields) -> Weights:
    """Weights of the families whose weights are counted from their dimensions; two bytes each unless quantised."""
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None or family.has_experts:
        return Weights(None, None, None)
    n_parameters = count_parameters(config)
    is_plain = config.get("quantization_config") is None
    return Weights(n_parameters, n_parameters, _BYTES_PER_WEIGHT * n_parameters if is_plain else None)


def _with_index(geometry: ModelGeometry, index: Path) -> ModelGeometry:
    """With the bytes that the index of the weight files beside the configuration states, if there is one."""
    if not index.is_file():
        return geometry
    metadata = json.loads(read_text(index, ConfigError, 64 * 2**20)).get("metadata", {})
    size_bytes = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(size_bytes, int):
        return geometry
    return replace(geometry, weights=replace(geometry.weights, size_bytes=size_bytes))


def _name(config: Fields, path: Path) -> str:
    published = config.get("_name_or_path")
    return published if isinstance(published, str) and published else path.resolve().parent.name
