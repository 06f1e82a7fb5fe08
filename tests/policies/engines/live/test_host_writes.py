"""A host pool under a write budget: what it refuses, what it writes on credit, and that it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.decide.fixed import factor_shift_ns
from autotune.core.learned import LearnedRules, RequestFacts, RunHistory
from autotune.core.policy import WriteBudget
from autotune.core.reuse import pack
from autotune.core.types import Admission
from autotune.core.units import NS_PER_S
from autotune.testing.reuse import example_reuse_model
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.writes import HostWrites, Offered

CHUNK_BYTES = 1000
CHUNK_TOKENS = 16
CAPACITY = 12
RULES = HostRules(
    "class_hazard",
    costs=CostProfile(1e-4, 1e-8, 1000, 1e8, 1e-5, 1e8, 1e-5, 1e9, 1e-4, 0.0, "made up for a test"),
    admission=Admission.MARGINAL,
    learned=LearnedRules.of(pack(example_reuse_model(), 12.0), 2.0),
)
ONE_PER_S = WriteBudget(bytes_per_s=1000.0, burst_s=20.0)
PLAIN = Offered(depth=0, continued=False, rank=0)


def key_of(chain: int, depth: int) -> bytes:
    """A key; chains share nothing."""
    return f"{chain}:{depth}".encode()


def limited(rules: HostRules = RULES, budget: WriteBudget | None = ONE_PER_S) -> HostIndex:
    """An empty index whose budget begins at time 0."""
    index = HostIndex(CAPACITY, CHUNK_TOKENS, HostRules.lru())
    index.past = RunHistory(CHUNK_TOKENS, 1000)
    index.begin_swap(rules, 0)
    index.finish_swap()
    index.writes = HostWrites(CHUNK_BYTES)
    index.writes.obey(budget, 0)
    return index


def bring(index: HostIndex, chain: int, depths: range, now_s: float) -> int:
    """Chunks of one prompt are offered and stored as far as they are admitted; returns how many."""
    now_ns = round(now_s * NS_PER_S)
    keys = {depth: key_of(chain, depth) for depth in depths}
    free = CAPACITY - len(index)
    index.at(now_ns)
    n = index.admit([(key, depth) for depth, key in keys.items()], free, set(keys.values()), now_ns)
    assert index.evict(max(0, n - free), set(keys.values())) is not None
    for depth in depths[:n]:
        index.insert(keys[depth], key_of(chain, depth - 1) if depth else None, depth, now_ns)
        index.release(keys[depth])
    if index.writes is not None:
        index.writes.wrote(n, now_ns)
    return n


def test_an_offer_is_cut_where_the_credit_ends() -> None:
    """Whose last chunk is paid has the rest on credit, from the first chunk on; others wait until that is made up."""
    index = limited()
    assert bring(index, 0, range(5), 0.5) == 0
    assert bring(index, 1, range(7), 3.0) == 5
    assert index.writes is not None
    assert index.writes.refused
    assert bring(index, 2, range(1), 5.0) == 0
    assert bring(index, 2, range(1), 6.0) == 1
    assert not index.writes.refused


def test_without_a_budget_nothing_is_refused() -> None:
    """Neither before there was one nor after it was taken away."""
    index = limited(budget=None)
    assert bring(index, 0, range(5), 0.0) == 5
    assert index.writes is not None
    index.writes.obey(ONE_PER_S, 0)
    assert bring(index, 1, range(5), 0.0) == 0
    index.writes.obey(None, 0)
    assert bring(index, 1, range(5), 0.0) == 5
    assert not index.writes.refused


def test_what_leads_to_a_resident_is_written_on_credit() -> None:
    """A chunk whose continuation is on the host comes in although nothing is saved up, once."""
    index = limited()
    assert bring(index, 0, range(3), 3.0) == 3
    index.remove(key_of(0, 0))
    index.remove(key_of(0, 1))
    assert bring(index, 1, range(2), 3.0) == 0
    assert bring(index, 0, range(2), 3.0) == 2
    assert bring(index, 1, range(2), 4.0) == 0  # what was written ahead has to be made up for


def test_credit_is_for_what_leads_to_a_resident_in_its_own_group() -> None:
    """Chunks of one group of layers are not written for the sake of what the host holds of another group."""
    writes = HostWrites(CHUNK_BYTES)
    writes.obey(ONE_PER_S, 0)
    others, leading = [Offered(depth, False, 0) for depth in range(2)], [Offered(0, False, 0), Offered(1, True, 0)]
    assert writes.count_paid(others + leading, 0) == 0
    assert writes.count_paid(leading + others, 0) == 2


def test_a_scarce_budget_is_spent_on_what_outranks_the_victim() -> None:
    """On a full host, a chunk that the reserve cannot pay in full must be worth more than the one that would leave."""
    index = limited()
    past = index.past
    assert past is not None
    for chain in range(CAPACITY):
        assert bring(index, chain, range(1), 100.0) == 1
        past.observe([key_of(chain, 0)], RequestFacts(CHUNK_TOKENS), 100 * NS_PER_S, 100 * NS_PER_S)
        index.refresh([key_of(chain, 0)], (), 100 * NS_PER_S)
    past.observe([key_of(50, 0)], RequestFacts(CHUNK_TOKENS), 100 * NS_PER_S, 100 * NS_PER_S)
    n_free, now_ns = CAPACITY - len(index), 102 * NS_PER_S
    assert n_free == 0
    index.at(now_ns)
    arriving = [(key_of(50, 0), 0)]
    assert index.admit(arriving, 0, (), now_ns, is_use=False) == 1  # the reserve is full: an equal rank is enough
    index.unstage()
    assert index.writes is not None
    index.writes.wrote(18, now_ns)
    assert index.admit(arriving, 0, (), now_ns, is_use=False) == 0
    assert index.writes.refused
    index.unstage()
    assert len(index) == CAPACITY


def test_the_same_budget_in_another_policy_goes_on() -> None:
    """What was spent stays spent; another budget begins empty."""
    writes = HostWrites(CHUNK_BYTES)
    writes.obey(ONE_PER_S, 0)
    now_ns = 10 * NS_PER_S
    assert writes.count_paid([PLAIN] * 20, now_ns) == 10
    writes.obey(WriteBudget(bytes_per_s=1000.0, burst_s=20.0), now_ns)
    assert writes.count_paid([PLAIN] * 20, now_ns) == 10
    writes.obey(WriteBudget(bytes_per_s=2000.0, burst_s=20.0), now_ns)
    assert writes.count_paid([PLAIN] * 20, now_ns) == 0


@given(
    offers=st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 5), st.integers(0, 3)), max_size=40),
    blocks_per_s=st.sampled_from([0.1, 1.0, 7.0]),
)
def test_the_budget_holds_at_any_time(offers: list[tuple[float, int, int]], blocks_per_s: float) -> None:
    """No more is written than it allowed since it began, beside the twentieth of it, or one chunk, that is credit."""
    writes = HostWrites(CHUNK_BYTES)
    writes.obey(WriteBudget(bytes_per_s=blocks_per_s * CHUNK_BYTES, burst_s=5.0), 0)
    now_ns = written = 0
    for wait_s, n, n_continued in offers:
        now_ns += round(wait_s * NS_PER_S)
        paid = writes.count_paid([Offered(i, i < n_continued, 5) for i in range(n)], now_ns, victim_rank=4)
        writes.wrote(paid, now_ns)
        written += paid
        allowed = now_ns / NS_PER_S * blocks_per_s
        assert written <= allowed + max(0.05 * allowed, 1.0) + 1.0 + 1e-6


def test_under_fixed_keys_a_price_is_a_distance() -> None:
    """Ranks that are moments are not multiplied: a block pays if its key lies far enough behind the victim's."""
    writes = HostWrites(CHUNK_BYTES)
    budget, scale_ns, now_ns = ONE_PER_S, 100.0 * NS_PER_S, 1000 * NS_PER_S
    writes.obey(budget, 0, scale_ns)
    writes.wrote(18, now_ns)  # of 20 saved up, all of which are the reserve
    victim = 10**6 * NS_PER_S
    price_ns = factor_shift_ns(scale_ns, 2.0 ** (8.0 * (1.0 - 2.0 / 20.0)))
    near, far = (Offered(0, False, victim + price_ns + more) for more in (-1, 0))
    assert writes.count_paid([near], now_ns, victim_rank=victim) == 0
    assert writes.count_paid([far], now_ns, victim_rank=victim) == 1
    writes.wrote(2, now_ns)
    assert writes.count_paid([far], now_ns, victim_rank=victim) == 0
