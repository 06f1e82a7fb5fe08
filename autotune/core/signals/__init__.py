"""Canonical signals of a serving engine and its host: what collectors produce and everything behind them reads."""

from __future__ import annotations

from autotune.core.signals.collector import Collected, CollectError, Collector, EngineTold, Informed, ReadPage
from autotune.core.signals.rates import Rates, SignalError, rates, since_start
from autotune.core.signals.readings import (
    Denominator,
    EngineInfo,
    Finding,
    FindingKind,
    HistogramReading,
    Reading,
    Snapshot,
)
from autotune.core.signals.target import Secret, Target, Tls
from autotune.core.signals.vocabulary import Kind, Signal, SignalSpec, Unit

__all__ = [
    "CollectError",
    "Collected",
    "Collector",
    "Denominator",
    "EngineInfo",
    "EngineTold",
    "Finding",
    "FindingKind",
    "HistogramReading",
    "Informed",
    "Kind",
    "Rates",
    "ReadPage",
    "Reading",
    "Secret",
    "Signal",
    "SignalError",
    "SignalSpec",
    "Snapshot",
    "Target",
    "Tls",
    "Unit",
    "rates",
    "since_start",
]
