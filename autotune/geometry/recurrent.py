"""Recurrent layers (linear attention, state-space models): a state of fixed size instead of a growing cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.geometry.kinds import LayerKind
from autotune.geometry.layer import divided
from autotune.geometry.precision import Precision


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """A convolution's newest inputs and a recurrent state, per sequence.

    Attributes:
        conv_values: Values of the convolution's state.
        conv_value_bytes: Bytes of each.
        state_values: Values of the recurrent state.
        state_value_bytes: Bytes of each.
    """

    conv_values: int
    conv_value_bytes: int
    state_values: int
    state_value_bytes: int

    @property
    def kind(self) -> LayerKind:
        """A recurrent layer."""
        return LayerKind.RECURRENT

    @property
    def growth_bytes(self) -> Fraction:
        """Nothing."""
        return Fraction(0)

    @property
    def fixed_bytes(self) -> int:
        """The whole state."""
        return self.conv_values * self.conv_value_bytes + self.state_values * self.state_value_bytes

    def stored_bytes(self, context_tokens: int) -> int:
        """The state, as soon as there is a token."""
        return self.fixed_bytes if context_tokens else 0

    def block_bytes(self, block_tokens: int) -> int:  # noqa: D102
        return 0

    def in_precision(self, precision: Precision) -> RecurrentState:  # noqa: D102
        return self

    def per_rank(self, n_ranks: int) -> RecurrentState:
        """Channels are split over ranks."""
        return replace(
            self,
            conv_values=divided(self.conv_values, n_ranks),
            state_values=divided(self.state_values, n_ranks),
        )
