"""The write budget of an engine's host, held against the simulator's: what one offer may write, from the same state."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.eviction import BlockAccess, TierContext
from autotune.core.learned import HazardPolicy, LearnedRules, RequestFacts, RunHistory
from autotune.core.policy import WriteBudget
from autotune.core.reuse import pack
from autotune.core.types import Admission, RankForm
from autotune.core.units import NS_PER_S
from autotune.testing.reuse import example_reuse_model
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules, chunk_value_s
from autotune_policies.engines.live.writes import HostWrites

CHUNK_BYTES, CHUNK_TOKENS, CAPACITY = 1000, 16, 10
N_CHAINS, LENGTH = 4, 8
COSTS = CostProfile(1e-4, 1e-8, 1000, 1e8, 1e-5, 1e8, 1e-5, 1e9, 1e-4, 0.0, "made up for a test")
PACKED = pack(example_reuse_model(), 12.0)


def name_of(block: int) -> bytes:
    """The chunk's key in the engine; chunk ``depth`` of a chain is number ``chain * LENGTH + depth``."""
    return b"%d" % block


def parent_of(block: int) -> int:
    """The chunk before; -1 for the first of its chain."""
    return block - 1 if block % LENGTH else -1


@dataclass
class Host:
    """An engine's host under a budget, and what its twin needs to be built from the same state."""

    form: RankForm
    admission: Admission
    now_ns: int = 0
    known: RunHistory[bytes] = field(default_factory=lambda: RunHistory(CHUNK_TOKENS, 1000))
    known_to_twin: RunHistory[int] = field(default_factory=lambda: RunHistory(CHUNK_TOKENS, 1000))

    def __post_init__(self) -> None:
        self.learned = LearnedRules.of(PACKED, 2.0, form=self.form)
        rules = HostRules("class_hazard", costs=COSTS, admission=self.admission, learned=self.learned)
        self.index = HostIndex(CAPACITY, CHUNK_TOKENS, HostRules.lru())
        self.index.past = self.known
        self.index.ranked_at_once = 10**9
        self.index.begin_swap(rules, 0)
        self.index.finish_swap()
        self.index.writes = self.writes = HostWrites(CHUNK_BYTES)

    def request(self, chain: int, length: int, tokens: int) -> None:
        """A request over the first chunks of a chain has finished, so that their classes are known."""
        blocks = [chain * LENGTH + depth for depth in range(length)]
        facts = RequestFacts(length * CHUNK_TOKENS + tokens, output_tokens=tokens)
        self.known.observe([name_of(b) for b in blocks], facts, self.now_ns, self.now_ns)
        self.known_to_twin.observe(blocks, facts, self.now_ns, self.now_ns)

    def hold(self, block: int) -> None:
        """A chunk comes in and may leave again."""
        parent = parent_of(block)
        self.index.insert(name_of(block), None if parent < 0 else name_of(parent), block % LENGTH, self.now_ns, False)
        self.index.release(name_of(block))

    def twin(self) -> HazardPolicy:
        """The simulator's host in this state."""
        values = tuple(chunk_value_s(COSTS, depth, CHUNK_TOKENS) for depth in range(LENGTH))
        context = replace(TierContext(CAPACITY), value_s=values)
        twin = HazardPolicy(context, self.learned, self.known_to_twin)
        twin.advance(self.now_ns)
        for sequence, name in enumerate(self.index.residents):
            twin.demote(self.access(int(name), sequence))
        twin._bucket = copy.copy(self.writes._bucket)
        return twin

    def access(self, block: int, sequence: int) -> BlockAccess:
        """How the simulator names a chunk."""
        return BlockAccess(block, parent_of(block), block % LENGTH, self.now_ns, sequence)

    def written_by_twin(self, blocks: list[int]) -> tuple[int, int]:
        """How many of these missing chunks the simulator writes, deepest first, and who would go for the first."""
        twin = self.twin()
        victim = twin._smallest(lambda _: False)
        n = 0
        for sequence, block in enumerate(reversed(blocks), 10**6):
            if twin.admits(self.access(block, sequence)):
                twin.demote(self.access(block, sequence))
                n += 1
        return n, -1 if victim is None else victim[2]

    def offer(self, blocks: list[int]) -> int:
        """The engine offers these missing chunks in prefix order; returns how many may be written."""
        free, keys = CAPACITY - len(self.index), {name_of(b) for b in blocks}
        parent = parent_of(blocks[0])
        self.index.protected_parent = None if parent < 0 else name_of(parent)
        n = self.index.admit([(name_of(b), b % LENGTH) for b in blocks], free, keys, self.now_ns, is_use=False)
        if self.index.evict(max(0, n - free), keys) is not None:
            for block in blocks[:n]:
                self.hold(block)
            self.writes.wrote(n, self.now_ns)
        self.index.unstage()
        self.index.protected_parent = None
        return n

    def offer_in_parts(self, blocks: list[int], part: int) -> int:
        """The same, so many at a time, up to the first that are refused."""
        n = 0
        while n < len(blocks):
            wanted = blocks[n : n + part]
            written = self.offer(wanted)
            n += written
            if written < len(wanted):
                break
        return n


BLOCKS = st.integers(0, N_CHAINS * LENGTH - 1)
REQUESTS = st.lists(st.tuples(st.integers(0, N_CHAINS - 1), st.integers(1, LENGTH), st.integers(0, 40)), max_size=12)
OFFERS = st.lists(
    st.tuples(st.floats(0.0, 12.0), st.integers(0, N_CHAINS - 1), st.integers(0, LENGTH - 1), st.integers(1, LENGTH)),
    min_size=1,
    max_size=12,
)
CUTS = st.one_of(st.just(LENGTH), st.integers(1, LENGTH))


@given(
    form=st.sampled_from(RankForm),
    admission=st.sampled_from((Admission.ALL, Admission.MARGINAL)),
    requests=REQUESTS,
    held=st.sets(BLOCKS, max_size=CAPACITY),
    offers=OFFERS,
    burst_s=st.sampled_from((3.0, 60.0, 600.0)),
    part=CUTS,
)
def test_an_offer_writes_as_much_as_in_the_simulator(
    form: RankForm,
    admission: Admission,
    requests: list[tuple[int, int, int]],
    held: set[int],
    offers: list[tuple[float, int, int, int]],
    burst_s: float,
    part: int,
) -> None:
    """From one state, chunks in prefix order get as many writes as the same chunks deepest first do there.

    They may get fewer where the next to leave is one that an offer protects, under marginal admission, which here asks
    each chunk by itself, and where they are offered in parts.
    """
    host = Host(form, admission)
    for chain in range(N_CHAINS):
        host.request(chain, LENGTH, 0)
    for chain, length, tokens in requests:
        host.now_ns += NS_PER_S
        host.request(chain, length, tokens)
    for block in held:
        host.hold(block)
    host.writes.obey(WriteBudget(bytes_per_s=CHUNK_BYTES, burst_s=burst_s), host.now_ns, host.learned.scale_ns)
    for wait_s, chain, first, n in offers:
        host.now_ns += round(wait_s * NS_PER_S)
        host.index.at(host.now_ns)
        run = range(chain * LENGTH + first, chain * LENGTH + min(LENGTH, first + n))
        missing = [b for b in run if name_of(b) not in host.index.residents]
        if not missing:
            continue
        expected, victim = host.written_by_twin(missing)
        spared = {*missing, parent_of(missing[0])}
        found = host.offer_in_parts(missing, part)
        assert found <= expected
        if admission is Admission.ALL and part >= len(missing) and victim not in spared:
            assert found == expected
