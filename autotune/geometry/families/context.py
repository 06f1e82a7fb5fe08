"""What every family reads from: the fields, the format of the cache, and who allocates it."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.geometry.attention import FullAttention
from autotune.geometry.fields import Fields
from autotune.geometry.kinds import Allocator, LayerKind
from autotune.geometry.precision import Precision
from autotune.geometry.window import SlidingWindow

# Published files of these leave the field out. Source: transformers 5.19, configuration_<name>.py.
_DEFAULT_HEADS = {"gemma2": 8, "gemma3_text": 8, "gemma3n_text": 8}


@dataclass(frozen=True, slots=True)
class Reading:
    """One configuration that is being read.

    Attributes:
        config: Its fields.
        precision: Format of the cached values.
        allocator: Who allocates the cache.
    """

    config: Fields
    precision: Precision
    allocator: Allocator

    @property
    def for_transformers(self) -> bool:
        """Whether Transformers allocates."""
        return self.allocator is Allocator.TRANSFORMERS

    @property
    def model_type(self) -> str:
        """The family's name."""
        return self.config.text("model_type")

    @property
    def n_heads(self) -> int:
        """Query heads per layer.

        Raises:
            ConfigError: the field is no positive whole number, or missing where the family has no default.
        """
        return self.config.count("num_attention_heads", default=_DEFAULT_HEADS.get(self.model_type))

    def attention(self, *, default_kv_heads: int | None, default_head_dim: int | None) -> FullAttention:
        """Heads as the usual fields give them.

        Args:
            default_kv_heads: Where the field is missing; ``None`` is as many as query heads.
            default_head_dim: Where the field is missing; ``None`` is hidden size / query heads.

        Raises:
            ConfigError: a field is no dimension, or heads do not divide.
        """
        config, n_heads = self.config, self.n_heads
        default = None if "num_key_value_heads" in config else default_kv_heads
        kv_heads = config.count("num_key_value_heads", default=default or n_heads)
        if n_heads % kv_heads:
            config.refuse("num_key_value_heads", f"must divide num_attention_heads, {n_heads}")
        head_dim = self._head_dim(default_head_dim, n_heads)
        return FullAttention(kv_heads, head_dim, head_dim, self.precision)

    def window(self, attention: FullAttention, field: str = "sliding_window", *, default: int | None) -> SlidingWindow:
        """A window of the width that a field gives.

        Raises:
            ConfigError: it is no positive whole number.
        """
        width = self.config.count(field, default=default)
        return SlidingWindow(attention, width, width - 1 if self.for_transformers else width)

    def layer_kinds(self, known: dict[str, LayerKind]) -> tuple[LayerKind, ...] | None:
        """Kinds from ``layer_types``; ``None`` where the field is missing.

        Args:
            known: Names that the family knows, with what they mean.

        Raises:
            ConfigError: a name is not known, or there are not as many as layers.
        """
        types, n_layers = self.config.get("layer_types"), self.config.count("num_hidden_layers")
        if types is None:
            return None
        if not isinstance(types, list) or len(types) < n_layers:
            self.config.refuse("layer_types", f"must name each of {n_layers} layers")
        for position, name in enumerate(types):
            if not isinstance(name, str) or name not in known:
                rule = f"must be types of layers that are known, but for layer {position}"
                self.config.refuse("layer_types", rule, f"{self.model_type} has: {', '.join(known)}", name)
        return tuple(known[name] for name in types[:n_layers])

    def _head_dim(self, default: int | None, n_heads: int) -> int:
        if self.config.get("head_dim") is not None or default is not None:
            return self.config.count("head_dim", default=default)
        hidden = self.config.count("hidden_size")
        if hidden % n_heads:
            self.config.refuse("head_dim", f"must be given where hidden_size {hidden} / {n_heads} heads leaves a rest")
        return hidden // n_heads
