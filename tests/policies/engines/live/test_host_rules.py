"""What the host obeys, and its arithmetic, held against the document and the core."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide.rank import decayed_frequency, rank_ns, value_term_ns
from autotune.core.errors import PolicyError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import LruDocument, StoredTier, Tiers, policy_spec
from autotune.core.trace import Trace
from autotune.core.types import Admission, Tier
from autotune.sim.tiers import tier_context
from autotune.testing.documents import (
    example_document,
    example_learned_document,
    example_priced_document,
    policy_documents,
)
from autotune_policies.engines.live.ranks import Ranks
from autotune_policies.engines.live.rules import HostRules, ValueTerms, chunk_value_s

CHUNK_TOKENS = 16


@given(document=policy_documents(("lru", "rank")))
def test_rules_are_those_of_the_simulator(document: LruDocument) -> None:
    """A document means the same rule to the engine as to the simulator."""
    if document.tiers.host is None:
        with pytest.raises(PolicyError, match="host tier"):
            HostRules.of(document)
        return
    rules, spec = HostRules.of(document), policy_spec(document, Tier.HOST)
    assert isinstance(spec, PolicySpec)
    knobs = document.rank.of(Tier.HOST) if document.rank else None
    assert rules.weight_ns == (0.0 if knobs is None else knobs.weight_ns)
    assert rules.half_life_s == dict(spec.params).get("half_life_s", 0.0)
    assert rules.cost_weight == dict(spec.params).get("cost_weight", 0.0)
    assert rules.admission is document.tiers.host.admission
    assert len(rules.document_hash) == 64


def test_prices_of_ranks_change_no_rule() -> None:
    """A learned document with measured prices is obeyed as the same one without them."""
    priced, plain = HostRules.of(example_priced_document()), HostRules.of(example_learned_document())
    assert priced.learned is not None
    assert plain.learned is not None
    assert priced.learned.gains == plain.learned.gains
    assert replace(priced, learned=None, document_hash="") == replace(plain, learned=None, document_hash="")
    assert priced.document_hash != plain.document_hash


def test_document_without_host_is_refused() -> None:
    """A policy without a host tier is no policy for an offloading engine."""
    document = example_document()
    budgets = document.budgets.model_copy(update={"host_bytes": 0})
    alone = LruDocument(fingerprint=document.fingerprint, budgets=budgets, tiers=Tiers(), costs=document.costs)
    with pytest.raises(PolicyError, match="host tier"):
        HostRules.of(alone)


def test_value_by_depth_is_the_simulators() -> None:
    """The seconds at stake at every depth are, to the last bit, those that the simulator ranks by."""
    costs, trace = example_document().costs.profile(), Trace.open("sample:conversation")
    simulated = tier_context(100, Tier.HOST, trace, costs).value_s
    assert len(simulated) > 100
    assert simulated == tuple(chunk_value_s(costs, depth, trace.block_tokens) for depth in range(len(simulated)))


def test_two_hit_lru_remembers_as_many_as_vllm_counts() -> None:
    """Plain LRU behind two-hit admission keeps vLLM's 64,000 entries; the rank rule what its document says."""
    document = example_document()
    tiers = Tiers(host=StoredTier(admission=Admission.TWO_HIT))
    plain = LruDocument(fingerprint=document.fingerprint, budgets=document.budgets, tiers=tiers, costs=document.costs)
    assert HostRules.of(plain).ghost_entries(10) == 64_000
    assert HostRules.of(document).ghost_entries(10) == 10
    assert HostRules("rank", ghost_ratio=1.5, admission=Admission.TWO_HIT).ghost_entries(10) == 15
    assert HostRules.lru().ghost_entries(10) == 0


@given(
    weight_ns=st.floats(0.0, 1e12),
    half_life_s=st.one_of(st.just(0.0), st.floats(1e-3, 1e6)),
    cost_weight=st.floats(0.0, 10.0),
    accesses=st.lists(st.tuples(st.floats(1.0, 1e3), st.integers(0, 10**12), st.integers(0, 300)), max_size=20),
)
def test_kept_results_change_nothing(
    weight_ns: float, half_life_s: float, cost_weight: float, accesses: list[tuple[float, int, int]]
) -> None:
    """Counts and ranks are those of the core, whatever was asked before."""
    costs = example_document().costs.profile()
    rules = HostRules("rank", weight_ns=weight_ns, half_life_s=half_life_s, cost_weight=cost_weight, costs=costs)
    ranks, now_ns = Ranks(rules, CHUNK_TOKENS), 10**13
    for frequency, elapsed_ns, depth in accesses:
        for _ in range(2):
            counted = ranks.counted(frequency, now_ns - elapsed_ns, now_ns)
            assert counted == decayed_frequency(frequency, elapsed_ns / 1e9, half_life_s) + 1.0
            term_ns = value_term_ns(weight_ns, cost_weight, chunk_value_s(costs, depth, CHUNK_TOKENS))
            assert ranks.rank_ns(now_ns, counted, depth) == rank_ns(now_ns, weight_ns, counted, term_ns)


def test_terms_are_computed_when_a_depth_is_first_seen() -> None:
    """A deep chunk gets its own term, not that of the deepest known one."""
    costs = example_document().costs.profile()
    terms = ValueTerms(HostRules("rank", weight_ns=1e9, cost_weight=1.0, costs=costs), CHUNK_TOKENS)
    known = len(terms.terms_ns)
    terms.extend(known + 50)
    assert len(terms.terms_ns) == known + 50
    assert terms.terms_ns[-1] > terms.terms_ns[0]


def test_expected_seconds_need_what_was_measured() -> None:
    """Without measured reuse there is no expectation; with it, it is probability times seconds saved."""
    rules = HostRules.of(example_document())
    assert rules.expected_s(2.0, 3, CHUNK_TOKENS) == 0.5 * chunk_value_s(example_document().costs.profile(), 3, 16)
    assert replace(rules, costs=None).expected_s(2.0, 3, CHUNK_TOKENS) is None
    assert HostRules.lru().expected_s(2.0, 3, CHUNK_TOKENS) is None
