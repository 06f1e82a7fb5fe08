"""How to stream, from a policy document."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotune.core.errors import StreamingError
from autotune.core.policy import load
from autotune.core.streaming import Placement, fit_resident_layers, resident_count

_DEFAULT_DEPTH = 1


@dataclass(frozen=True, slots=True)
class StreamingPlan:
    """p, d and placement.

    Attributes:
        resident_frac: p.
        prefetch_depth: d, in streamed layers.
        n_resident: The layers that p means.
        placement: Which layers are streamed.
    """

    resident_frac: float
    prefetch_depth: int
    n_resident: int
    placement: Placement = Placement.EVEN

    @classmethod
    def from_policy(cls, path: Path, n_layers: int, layer_bytes: int | None = None) -> StreamingPlan:
        """What a policy says: its section ``streaming``, else the most layers that its device budget holds.

        Args:
            path: Of the document.
            n_layers: Layers that can be streamed.
            layer_bytes: KV bytes of one layer at the longest, whole batch.

        Raises:
            StreamingError: it has no such section and ``layer_bytes`` is not given, or not even d + 1 slots fit.
            PolicyError: it is not valid.
        """
        document = load(path)
        if document.streaming is not None:
            told = document.streaming
            n_resident = resident_count(n_layers, told.resident_frac)
            return cls(told.resident_frac, told.prefetch_depth, n_resident, told.placement)
        if layer_bytes is None:
            raise StreamingError(
                "a policy has a section 'streaming', or the bytes of a layer are given",
                got=f"{path} without it",
                remedy="pass layer_bytes, or tune with --engine transformers",
            )
        return cls.within(document.budgets.device_bytes, n_layers, layer_bytes)

    @classmethod
    def within(
        cls, budget_bytes: int, n_layers: int, layer_bytes: int, prefetch_depth: int = _DEFAULT_DEPTH
    ) -> StreamingPlan:
        """The most resident layers that a device budget holds beside the slots.

        Raises:
            StreamingError: not even d + 1 slots fit.
        """
        n_resident = fit_resident_layers(n_layers, prefetch_depth, layer_bytes, budget_bytes)
        if n_resident is None:
            raise StreamingError(
                f"the device budget holds {prefetch_depth + 1} slots of {layer_bytes} bytes",
                got=f"{budget_bytes} bytes",
                remedy="use a larger budget, fewer sequences or shorter ones",
            )
        return cls(n_resident / n_layers if n_layers else 1.0, prefetch_depth, n_resident)
