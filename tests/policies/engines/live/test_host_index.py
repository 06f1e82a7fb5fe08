"""The order of a host pool's residents, held against a model that sorts everything anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from autotune.core.costs import CostProfile
from autotune.core.decide.rank import decayed_frequency, rank_ns, value_term_ns
from autotune.core.types import Admission
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules, chunk_value_s

CHUNK_TOKENS = 16
COSTS = CostProfile(1e-4, 1e-8, 1000, 1e8, 1e-5, 1e8, 1e-5, 1e9, 1e-4, 0.0, "made up for a test")
CAPACITY = 12
RULES = (
    HostRules.lru(),
    HostRules("rank", weight_ns=4e9, ghost_ratio=1.0, costs=COSTS),
    HostRules("rank", weight_ns=2e9, half_life_s=3.0, cost_weight=0.7, ghost_ratio=2.0, costs=COSTS),
    HostRules("rank", weight_ns=3e9, ghost_ratio=0.5, admission=Admission.MARGINAL, costs=COSTS),
    HostRules("rank", weight_ns=1e9, ghost_ratio=1.0, admission=Admission.TWO_HIT, costs=COSTS),
    HostRules("rank", ghost_ratio=1.0, admission=Admission.MARGINAL, costs=COSTS),
)


def key_of(chain: int, depth: int) -> bytes:
    """A key; chains share nothing."""
    return f"{chain}:{depth}".encode()


@dataclass
class Chunk:
    """What the model knows of a resident."""

    parent: bytes | None
    depth: int
    frequency: float
    last_ns: int
    sequence: int
    evictable: bool = False


@dataclass
class Model:
    """The rule, written down without any data structure."""

    rules: HostRules
    chunks: dict[bytes, Chunk] = field(default_factory=dict)
    ghosts: dict[bytes, tuple[float, int]] = field(default_factory=dict)
    sequence: int = 0

    def rank(self, chunk: Chunk) -> tuple[int, int]:
        """Rank and tie-breaker."""
        return self.rank_of(chunk.last_ns, chunk.frequency, chunk.depth), chunk.sequence

    def rank_of(self, last_ns: int, frequency: float, depth: int) -> int:
        """Rank from its parts."""
        rules = self.rules
        value_s = chunk_value_s(COSTS, depth, CHUNK_TOKENS) if rules.costs else 1.0
        return rank_ns(last_ns, rules.weight_ns, frequency, value_term_ns(rules.weight_ns, rules.cost_weight, value_s))

    def counted(self, known: tuple[float, int] | None, now_ns: int) -> float:
        """One more access."""
        if known is None:
            return 1.0
        return decayed_frequency(known[0], (now_ns - known[1]) / 1e9, self.rules.half_life_s) + 1.0

    def victims(self, n: int, protected: set[bytes], wanted: list[int] | None = None) -> list[bytes]:
        """The next ``n`` to leave, or as many as may; each below the rank that is wanted in its place."""
        left, chosen = dict(self.chunks), list[bytes]()
        while len(chosen) < n:
            free = [key for key, chunk in left.items() if chunk.evictable and key not in protected]
            if self.rules.leaf_only:
                parents = {chunk.parent for chunk in left.values()}
                free = [key for key in free if key not in parents]
            if not free:
                break
            key = min(free, key=lambda key: self.rank(left[key]))
            if wanted is not None and wanted[len(chosen)] < self.rank(left[key])[0]:
                break
            chosen.append(key)
            del left[key]
        return chosen

    def drop(self, key: bytes) -> None:
        """A resident becomes a ghost."""
        chunk = self.chunks.pop(key)
        self.remember(key, chunk.frequency, chunk.last_ns)

    def remember(self, key: bytes, frequency: float, last_ns: int) -> None:
        """A chunk becomes the newest ghost."""
        limit = self.rules.ghost_entries(CAPACITY)
        self.ghosts.pop(key, None)
        if limit:
            while len(self.ghosts) >= limit:
                del self.ghosts[next(iter(self.ghosts))]
            self.ghosts[key] = frequency, last_ns


class IndexMachine(RuleBasedStateMachine):
    """Requests come, copies end, chunks leave, rules change; index and model must agree on everything."""

    def __init__(self) -> None:
        super().__init__()
        self.index = HostIndex(CAPACITY, CHUNK_TOKENS, RULES[0])
        self.model = Model(RULES[0])
        self.next_rules: HostRules | None = None
        self.now_ns = 10**12
        self.running: list[tuple[list[bytes], set[bytes]]] = []

    @rule(chain=st.integers(0, 5), length=st.integers(1, 5), wait_ns=st.integers(0, 4 * 10**9))
    def request(self, chain: int, length: int, wait_ns: int) -> None:
        """A request offers a chain: what is missing is admitted, room is made, and it comes in, held."""
        self.now_ns += wait_ns
        keys = [key_of(chain, depth) for depth in range(length)]
        missing = [key for key in keys if key not in self.model.chunks]
        parent = keys[keys.index(missing[0]) - 1] if missing and missing[0] != keys[0] else None
        protected = set(keys)
        self.index.protected_parent = parent if self.model.rules.leaf_only else None
        free = CAPACITY - len(self.model.chunks)
        n = self.index.admit([(key, keys.index(key)) for key in missing], free, protected, self.now_ns)
        assert n == self.expected_admissions(missing, keys, free, protected)
        n_victims = max(0, n - free)
        expected = self.model.victims(n_victims, protected)
        found = self.index.evict(n_victims, protected)
        self.index.unstage()
        self.index.refuse(missing[n:], self.now_ns)
        self.index.protected_parent = None
        if len(expected) < n_victims:
            assert found is None
            n = 0
        else:
            assert found == expected
            for key in expected:
                self.model.drop(key)
        refused = missing[n:] if found is not None else missing[self.admitted :]
        for key in refused:
            self.model.remember(key, self.model.counted(self.model.ghosts.get(key), self.now_ns), self.now_ns)
        for key in missing[:n]:
            self.insert(key, keys)
        self.running.append((keys, set(missing[:n])))

    def expected_admissions(self, missing: list[bytes], keys: list[bytes], free: int, protected: set[bytes]) -> int:
        """How many the model admits."""
        model, self.admitted = self.model, len(missing)
        if model.rules.admission is Admission.TWO_HIT:
            self.admitted = next((i for i, key in enumerate(missing) if key not in model.ghosts), len(missing))
        elif model.rules.admission is Admission.MARGINAL:
            n_free = min(free, len(missing))
            wanted = [
                model.rank_of(self.now_ns, model.counted(model.ghosts.get(key), self.now_ns), keys.index(key))
                for key in missing[n_free:]
            ]
            self.admitted = n_free + len(model.victims(len(wanted), protected, wanted))
        return self.admitted

    def insert(self, key: bytes, keys: list[bytes]) -> None:
        """One chunk comes in."""
        depth = keys.index(key)
        parent = keys[depth - 1] if depth else None
        self.index.insert(key, parent, depth, self.now_ns)
        self.model.sequence += 1
        frequency = self.model.counted(self.model.ghosts.pop(key, None), self.now_ns)
        self.model.chunks[key] = Chunk(parent, depth, frequency, self.now_ns, self.model.sequence)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A running request ends: its chunks are refreshed, deepest first."""
        if not self.running:
            return
        keys, brought = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.index.refresh(reversed(keys), brought, self.now_ns)
        for key in reversed(keys):
            chunk = self.model.chunks.get(key)
            if chunk is None:
                continue
            if key not in brought:
                chunk.frequency = self.model.counted((chunk.frequency, chunk.last_ns), self.now_ns)
            self.model.sequence += 1
            chunk.last_ns, chunk.sequence = self.now_ns, self.model.sequence

    @rule(data=st.data(), n=st.integers(1, 6))
    def copies_end(self, data: st.DataObject, n: int) -> None:
        """Some copies in flight end."""
        for key in [key for key, chunk in self.model.chunks.items() if not chunk.evictable][:n]:
            if data.draw(st.booleans()):
                self.index.release(key)
                self.model.chunks[key].evictable = True

    @rule(data=st.data())
    def load_begins(self, data: st.DataObject) -> None:
        """A resident is held for a load."""
        idle = [key for key, chunk in self.model.chunks.items() if chunk.evictable]
        if idle:
            key = data.draw(st.sampled_from(idle))
            self.index.hold(key)
            self.model.chunks[key].evictable = False

    @rule(data=st.data())
    def store_fails(self, data: st.DataObject) -> None:
        """A chunk whose copy is in flight is removed."""
        held = [key for key, chunk in self.model.chunks.items() if not chunk.evictable]
        if held:
            key = data.draw(st.sampled_from(held))
            self.index.remove(key)
            self.model.drop(key)

    @rule(n=st.integers(0, 8), data=st.data())
    def evict(self, n: int, data: st.DataObject) -> None:
        """Exactly n leave, or none."""
        protected = set(data.draw(st.lists(st.sampled_from([key_of(c, d) for c in range(6) for d in range(5)]))))
        expected = self.model.victims(n, protected)
        found = self.index.evict(n, protected)
        if len(expected) < n:
            assert found is None
        else:
            assert found == expected
            for key in expected:
                self.model.drop(key)

    @rule(rules=st.sampled_from(RULES))
    def new_rules(self, rules: HostRules) -> None:
        """New rules are being prepared."""
        self.index.begin_swap(rules)
        self.next_rules = rules

    @rule(n=st.integers(1, 8))
    def prepare(self, n: int) -> None:
        """A slice of the work is done; the rules change when nothing is left."""
        if self.index.advance_swap(n) == 0 and self.next_rules is not None:
            self.model.rules, self.next_rules = self.next_rules, None
            while len(self.model.ghosts) > self.model.rules.ghost_entries(CAPACITY):
                del self.model.ghosts[next(iter(self.model.ghosts))]

    @rule()
    def reset(self) -> None:
        """The host is emptied."""
        self.index.clear()
        if self.next_rules is not None:
            self.model.rules, self.next_rules = self.next_rules, None
        self.model.chunks.clear()
        self.model.ghosts.clear()

    @invariant()
    def same_residents_and_ghosts(self) -> None:
        """Index and model hold and remember the same."""
        assert set(self.index.residents) == set(self.model.chunks)
        assert {key for key in self.model.ghosts if key in self.index.ghosts} == set(self.model.ghosts)
        assert len(self.index.ghosts) == len(self.model.ghosts)

    @invariant()
    def bounded(self) -> None:
        """The heap stays within twice the residents and a little."""
        assert len(self.index._heap) <= 2 * len(self.index.residents) + 65

    def teardown(self) -> None:
        """In the end everything may leave, in the model's order."""
        for key, chunk in self.model.chunks.items():
            if not chunk.evictable:
                self.index.release(key)
                chunk.evictable = True
        n = len(self.model.chunks)
        assert self.index.evict(n, ()) == self.model.victims(n, set())
        assert self.index._chains.orphans == {}


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: f"{rules.kind}-{rules.admission}")
def test_failed_eviction_changes_nothing(rules: HostRules) -> None:
    """After an eviction that could not be satisfied, the order of leaving is what it was before."""
    indexes = [HostIndex(8, CHUNK_TOKENS, rules) for _ in range(2)]
    for index in indexes:
        for depth in range(4):
            index.insert(key_of(0, depth), key_of(0, depth - 1) if depth else None, depth, depth)
        for depth in range(3):
            index.release(key_of(0, depth))
    assert indexes[0].evict(4, ()) is None
    for index in indexes:
        index.release(key_of(0, 3))
    assert indexes[0].evict(4, ()) == indexes[1].evict(4, ())


def test_condemned_chunk_leaves_next() -> None:
    """A condemned chunk leaves before all others, unless it is used again."""
    index = HostIndex(8, CHUNK_TOKENS, RULES[1])
    for chain in range(3):
        index.insert(key_of(chain, 0), None, 0, chain)
        index.release(key_of(chain, 0))
    index.condemn(key_of(2, 0))
    assert index.evict(1, ()) == [key_of(2, 0)]
    index.condemn(key_of(1, 0))
    index.refresh([key_of(1, 0)], (), 10)
    assert index.evict(1, ()) == [key_of(0, 0)]


def test_what_the_device_gives_up_counts_no_access() -> None:
    """A chunk that comes down keeps its count, and under two-hit admission it must have been used twice."""
    index = HostIndex(8, CHUNK_TOKENS, RULES[4])
    once, twice = key_of(0, 0), key_of(1, 0)
    index.refuse([once, twice], 0)
    index.refuse([twice], 1)
    assert index.admit([(once, 0)], 8, (), 2, is_use=False) == 0
    assert index.admit([(twice, 0)], 8, (), 2, is_use=False) == 1
    index.insert(twice, None, 0, 2, is_use=False)
    assert index.residents[twice].frequency == 2.0
    index.insert(once, None, 0, 3)
    assert index.residents[once].frequency == 2.0
