"""Multi-head latent attention: one compressed vector per token instead of keys and values per head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.core.errors import ConfigError
from autotune.geometry.attention import FullAttention
from autotune.geometry.kinds import LayerKind
from autotune.geometry.precision import Precision

# fp8_ds_mla: 512 latent values of one byte, four scales of four bytes, 64 position values of two bytes.
# Source: vLLM 0.32, v1/attention/backends/mla/flashmla_sparse.py and model_executor/layers/attention/mla_attention.py.
FP8_DS_MLA = "fp8_ds_mla"
_FP8_DS_MLA_LATENT, _FP8_DS_MLA_ROPE, _FP8_DS_MLA_BYTES = 512, 64, 656


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """One latent and one position vector per token.

    Attributes:
        latent_dim: Values of the compressed vector (``kv_lora_rank``).
        rope_dim: Values that carry the position (``qk_rope_head_dim``).
        precision: Format of the values.
        token_bytes: Bytes per token of a packed format that stands in for ``precision``; 0 without one.
        decompressed: What the same layer keeps as keys and values per head.
    """

    latent_dim: int
    rope_dim: int
    precision: Precision
    decompressed: FullAttention
    token_bytes: int = 0

    @property
    def kind(self) -> LayerKind:
        """Latent attention."""
        return LayerKind.LATENT

    @property
    def growth_bytes(self) -> Fraction:
        """Bytes of one more token."""
        return Fraction(self.token_bytes) or self.precision.value_bytes(self.latent_dim + self.rope_dim)

    @property
    def fixed_bytes(self) -> int:
        """None."""
        return 0

    def stored_bytes(self, context_tokens: int) -> int:
        """Every token is kept."""
        if self.token_bytes:
            return self.token_bytes * context_tokens
        return self.precision.stored_bytes(self.latent_dim + self.rope_dim, context_tokens)

    def block_bytes(self, block_tokens: int) -> int:
        """Bytes of one block."""
        return replace(self, precision=replace(self.precision, residual_tokens=0)).stored_bytes(block_tokens)

    def in_precision(self, precision: Precision) -> LatentAttention:
        """The same in another format."""
        return replace(self, precision=precision, token_bytes=0, decompressed=self.decompressed.in_precision(precision))

    def packed(self) -> LatentAttention:
        """The same in vLLM's format ``fp8_ds_mla``.

        Raises:
            ConfigError: the format is not defined for these widths.
        """
        if (self.latent_dim, self.rope_dim) != (_FP8_DS_MLA_LATENT, _FP8_DS_MLA_ROPE):
            raise ConfigError(
                f"{FP8_DS_MLA} is a layout of {_FP8_DS_MLA_LATENT} latent and {_FP8_DS_MLA_ROPE} position values",
                got=f"{self.latent_dim} and {self.rope_dim}",
            )
        return replace(self, token_bytes=_FP8_DS_MLA_BYTES)

    def per_rank(self, n_ranks: int) -> LatentAttention:
        """Every rank keeps all of it: there is one vector for all heads."""
        return self
