"""What is believed about reuse, as tables: two scores, a class, and one curve of reuse by age per class.

A model is fitted elsewhere, read from a policy document, and evaluated here or, packed, by the functions of
:mod:`autotune.core.decide.reuse`; all of them give the same whole numbers.
"""

from __future__ import annotations

from autotune.core.reuse.curves import Curves, curves
from autotune.core.reuse.gain import gain_table
from autotune.core.reuse.model import (
    NO_FEATURE,
    SCORE_BITS,
    SCORE_UNIT,
    Calibration,
    HorizonModel,
    ReuseModel,
    ScoreTable,
)
from autotune.core.reuse.packed import PackedModel, pack
from autotune.core.reuse.scoring import Contribution, classify, contributions, probability, score_rows

__all__ = [
    "NO_FEATURE",
    "SCORE_BITS",
    "SCORE_UNIT",
    "Calibration",
    "Contribution",
    "Curves",
    "HorizonModel",
    "PackedModel",
    "ReuseModel",
    "ScoreTable",
    "classify",
    "contributions",
    "curves",
    "gain_table",
    "pack",
    "probability",
    "score_rows",
]
