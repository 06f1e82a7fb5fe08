"""What the host tier obeys, taken from a policy document once so that no decision has to look anything up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotune.core.costs import CostProfile
from autotune.core.decide.rank import value_term_ns
from autotune.core.decide.value import prefill_s
from autotune.core.errors import PolicyError
from autotune.core.learned import LearnedRules
from autotune.core.policy import ClassHazardDocument, PolicyDocument, Prices, WriteBudget, document_hash
from autotune.core.policy.rank import RankKnobs
from autotune.core.reuse import gain_table, pack
from autotune.core.types import Admission, StoreMode, Tier

_FIRST_TERMS = 64
_UNKNOWN = Prices()
_TRACKED_CHUNKS = 64_000  # Source: vLLM 0.32, v1/kv_offload/cpu/manager.py, max_tracker_size


@dataclass(frozen=True, slots=True)
class HostRules:
    """Rules of the host tier.

    Attributes:
        kind: Kind of the document: ``lru``, ``rank`` or ``class_hazard``.
        document_hash: SHA-256 of the document, empty for the engine's own LRU.
        weight_ns: ``w`` of the rank rule in nanoseconds; 0 is exactly LRU.
        half_life_s: Half-life of an access; 0 means that nothing fades.
        cost_weight: Weight of the logarithm of the seconds at stake.
        ghost_ratio: Ghost entries kept per chunk of capacity; ``None`` = as many as vLLM's own threshold counts.
        admission: Which missing chunks come in.
        store_mode: When copies come from the device.
        min_load_tokens: Shortest run that is loaded; 0 = as the costs decide.
        costs: What recompute and transfer cost; ``None`` where nothing is known.
        prices: What a byte is worth, and how often chunks come back, as far as that was measured.
        learned: The learned rule that ranks; ``None`` = none does.
        history_tokens: Tokens whose past is remembered for it; 0 = as many as the tiers hold.
        host_write: What may be written to the host; ``None`` = everything.
    """

    kind: str
    document_hash: str = ""
    weight_ns: float = 0.0
    half_life_s: float = 0.0
    cost_weight: float = 0.0
    ghost_ratio: float | None = 0.0
    admission: Admission = Admission.ALL
    store_mode: StoreMode = StoreMode.EAGER
    min_load_tokens: int = 0
    costs: CostProfile | None = None
    prices: Prices = _UNKNOWN
    learned: LearnedRules | None = None
    history_tokens: int = 0
    host_write: WriteBudget | None = None

    @classmethod
    def lru(cls) -> HostRules:
        """What the engine does by itself."""
        return cls(kind="lru")

    @classmethod
    def of(cls, document: PolicyDocument) -> HostRules:
        """The rules of a document's host tier.

        Raises:
            PolicyError: the document has no host tier.
        """
        tier = document.tiers.host
        if tier is None:
            raise PolicyError(
                "a policy for an offloading engine has a host tier",
                got="tiers.host: null",
                remedy="tune with --host-gib, or do not offload",
            )
        knobs = document.rank.of(Tier.HOST) if document.rank else None
        common = cls(
            kind=document.kind,
            document_hash=document_hash(document),
            admission=tier.admission,
            store_mode=tier.store_mode,
            min_load_tokens=tier.min_load_tokens,
            costs=document.costs.profile(),
            prices=document.prices,
            ghost_ratio=None if tier.admission is Admission.TWO_HIT else 0.0,
            learned=learned_rules(document, Tier.HOST),
            history_tokens=document.class_hazard.history_tokens if isinstance(document, ClassHazardDocument) else 0,
            host_write=document.budgets.host_write,
        )
        return common if knobs is None else common._ranked(knobs)

    def _ranked(self, knobs: RankKnobs) -> HostRules:
        return replace(
            self,
            weight_ns=knobs.weight_ns,
            half_life_s=knobs.half_life_s,
            cost_weight=knobs.cost_weight,
            ghost_ratio=knobs.ghost_ratio,
        )

    def ghost_entries(self, capacity: int) -> int:
        """Ghost entries kept beside ``capacity`` chunks."""
        return _TRACKED_CHUNKS if self.ghost_ratio is None else math.ceil(self.ghost_ratio * capacity)

    def expected_s(self, frequency: float, depth: int, chunk_tokens: int) -> float | None:
        """Seconds that a copy on the host is expected to save within one turnover; ``None`` where that is not known."""
        probability = self.prices.reuse_probability(frequency)
        if probability is None or self.costs is None:
            return None
        return probability * chunk_value_s(self.costs, depth, chunk_tokens)

    @property
    def copies_leave_first(self) -> bool:
        """Whether what the device holds too leaves the host before all else, even if a resident continues it."""
        return self.learned is not None and self.learned.copy_factor == 0.0

    @property
    def leaf_only(self) -> bool:
        """Whether a chunk that a resident chunk continues must stay; LRU knows no such rule."""
        return self.weight_ns > 0.0 or self.learned is not None

    @property
    def key_scale_ns(self) -> float:
        """Scale of keys that do not change; 0 where ranks are no such keys."""
        return 0.0 if self.learned is None else self.learned.scale_ns

    def without_learning(self) -> HostRules:
        """The same modes and costs, ordered by LRU: for an engine that tells nothing of finished requests."""
        admission = Admission.ALL if self.admission is Admission.MARGINAL else self.admission
        return replace(self, learned=None, admission=admission)


def learned_rules(document: PolicyDocument, tier: Tier) -> LearnedRules | None:
    """The learned rule of one tier; ``None`` where another rule governs it.

    On the device every reuse counts, and no block is a copy. With eager stores every chunk on the host is one when it
    comes, so there copies are worth what others are.
    """
    rule = document.tiers.of(tier)
    if not isinstance(document, ClassHazardDocument) or rule is None or rule.policy != "class_hazard":
        return None
    digest = document_hash(document)
    known = _learned.get(digest)
    if known is None:
        section = document.class_hazard
        model = section.model()
        packed = pack(model, section.device_age_s)
        stored = document.tiers.host
        is_eager = stored is None or stored.store_mode is StoreMode.EAGER
        copy_factor = 1.0 if is_eager else section.copy_factor
        host = LearnedRules.of(packed, section.tick_s, copy_factor, form=section.form)
        gains = gain_table(model, 0.0)
        device = LearnedRules.of(packed, section.tick_s, 1.0, gains, host.classifier, section.form)
        known = _learned[digest] = {Tier.DEVICE: device, Tier.HOST: host}
        for former in list(_learned)[:-_KEPT]:
            _learned.pop(former, None)
    return known[tier]


_KEPT = 2  # a trial and the policy that it falls back to; both tiers ask for each
_learned: dict[str, dict[Tier, LearnedRules]] = {}


class ValueTerms:
    """Value term of the rank by depth, computed when a depth is first seen.

    Args:
        rules: The rules in force.
        chunk_tokens: Tokens of one chunk.
    """

    def __init__(self, rules: HostRules, chunk_tokens: int) -> None:
        self._rules = rules
        self._chunk_tokens = chunk_tokens
        self.terms_ns: list[int] = []
        self.extend(_FIRST_TERMS)

    def extend(self, n_depths: int) -> None:
        """Make sure that depths 0 to ``n_depths - 1`` are known."""
        rules = self._rules
        for depth in range(len(self.terms_ns), n_depths):
            value_s = chunk_value_s(rules.costs, depth, self._chunk_tokens) if rules.costs else 1.0
            self.terms_ns.append(value_term_ns(rules.weight_ns, rules.cost_weight, value_s))


def chunk_value_s(costs: CostProfile, depth: int, chunk_tokens: int) -> float:
    """Seconds that a host hit on the chunk at ``depth`` (0 = first) saves: its recompute less its load, at least 0."""
    start, end = float(depth * chunk_tokens), float((depth + 1) * chunk_tokens)
    linear, quadratic = costs.prefill_linear_s, costs.prefill_quadratic_s
    recompute_s = prefill_s(end, linear, quadratic) - prefill_s(start, linear, quadratic)
    return max(recompute_s - costs.block_load_s(chunk_tokens), 0.0)
