"""From a document to the registered policy, with its parameters, that fulfils it on one tier."""

from __future__ import annotations

from autotune.core.eviction import PolicySpec
from autotune.core.policy.document import ClassHazardDocument, PolicyDocument
from autotune.core.types import Admission, Tier

ADMISSION_CODES = {Admission.ALL: 0.0, Admission.MARGINAL: 1.0, Admission.TWO_HIT: 2.0}


def policy_spec(document: PolicyDocument, tier: Tier) -> PolicySpec | None:
    """The policy of one tier by registered name; ``None`` where there is no such tier."""
    rule = document.tiers.of(tier)
    if rule is None:
        return None
    if isinstance(document, ClassHazardDocument) and rule.policy == "class_hazard":
        section = document.class_hazard
        return PolicySpec.of(
            "class_hazard",
            **({"fixed_key": 1.0} if section.rerank_s is None else {"rerank_s": section.rerank_s}),
            copy_factor=section.copy_factor,
            admission=ADMISSION_CODES[rule.admission],
        )
    knobs = document.rank.of(tier) if document.rank else None
    if knobs is None:
        return PolicySpec.of("two_hit" if rule.admission is Admission.TWO_HIT else "lru")
    return PolicySpec.of(
        "rank",
        lambda_recency=knobs.lambda_recency,
        tau_s=knobs.tau_s,
        half_life_s=knobs.half_life_s,
        cost_weight=knobs.cost_weight,
        ghost_ratio=knobs.ghost_ratio,
        admission=ADMISSION_CODES[rule.admission],
    )
