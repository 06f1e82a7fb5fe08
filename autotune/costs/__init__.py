"""What recompute and transfer cost: from a machine's published figures, or from what a running engine reports."""

from __future__ import annotations

from autotune.core.break_even import break_even_tokens
from autotune.costs.hardware import hardware_names, load_hardware, with_link
from autotune.costs.roofline import profile

__all__ = ["break_even_tokens", "hardware_names", "load_hardware", "profile", "with_link"]
