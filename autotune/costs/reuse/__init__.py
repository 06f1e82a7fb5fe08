"""Fits the reuse model on the past: what became of runs of blocks, by what was known when they fell idle."""

from __future__ import annotations

from autotune.costs.reuse.fit import fit_reuse
from autotune.costs.reuse.rows import NotEnough, ReuseSettings, Rows

__all__ = ["NotEnough", "ReuseSettings", "Rows", "fit_reuse"]
