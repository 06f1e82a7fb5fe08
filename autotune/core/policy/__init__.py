"""The policy document ``kv-autotune/policy/v1``: what the tuner hands over and what an engine obeys.

Read one with :func:`parse` or :func:`load`; :mod:`autotune.export` writes it.
"""

from __future__ import annotations

from autotune.core.policy.class_hazard import ClassHazardSection
from autotune.core.policy.document import ClassHazardDocument, Lease, LruDocument, PolicyDocument, RankDocument
from autotune.core.policy.economics import Costs, Prices, ReuseStep
from autotune.core.policy.evidence import Expectation, Fingerprint, GainFrac
from autotune.core.policy.explain import Explanation, RankParts, explain
from autotune.core.policy.explain_learned import (
    HorizonParts,
    KeyOnTier,
    KeyParts,
    LearnedParts,
    LearnedRank,
    ScorePart,
)
from autotune.core.policy.optional import Hints, Streaming
from autotune.core.policy.provenance import (
    Package,
    Provenance,
    SimulationFacts,
    SkippedRows,
    TraceOption,
    TraceSource,
)
from autotune.core.policy.rank import RankKnobs, RankSection
from autotune.core.policy.rank_prices import RankPrices
from autotune.core.policy.reading import document_hash, load, parse
from autotune.core.policy.specs import policy_spec
from autotune.core.policy.tiers import Budgets, DeviceTier, StoredTier, Tiers, WriteBudget

__all__ = [
    "Budgets",
    "ClassHazardDocument",
    "ClassHazardSection",
    "Costs",
    "DeviceTier",
    "Expectation",
    "Explanation",
    "Fingerprint",
    "GainFrac",
    "Hints",
    "HorizonParts",
    "KeyOnTier",
    "KeyParts",
    "LearnedParts",
    "LearnedRank",
    "Lease",
    "LruDocument",
    "Package",
    "PolicyDocument",
    "Prices",
    "Provenance",
    "RankDocument",
    "RankKnobs",
    "RankParts",
    "RankPrices",
    "RankSection",
    "ReuseStep",
    "ScorePart",
    "SimulationFacts",
    "SkippedRows",
    "StoredTier",
    "Streaming",
    "Tiers",
    "TraceOption",
    "TraceSource",
    "WriteBudget",
    "document_hash",
    "explain",
    "load",
    "parse",
    "policy_spec",
]
