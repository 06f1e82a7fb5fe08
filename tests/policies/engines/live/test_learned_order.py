"""The order of a host pool under a learned rule, held against a model that ranks everything anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from autotune.core.costs import CostProfile
from autotune.core.decide.fixed import factor_shift_ns, odds_shift_ns, reuse_odds, value_shift_ns
from autotune.core.decide.hazard import age_bin, hazard_key
from autotune.core.decide.rank import NS_PER_S, round_half_up
from autotune.core.learned import IN_USE_KEY, LearnedRules, RequestFacts, Run, RunHistory
from autotune.core.reuse import PackedModel, classify, gain_table, pack, score_rows
from autotune.core.types import Admission, RankForm
from autotune.testing.reuse import example_reuse_model
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.learned_ranks import HazardRanks
from autotune_policies.engines.live.rules import HostRules, chunk_value_s

CHUNK_TOKENS = 16
CAPACITY = 12
COSTS = CostProfile(1e-4, 1e-8, 1000, 1e8, 1e-5, 1e8, 1e-5, 1e9, 1e-4, 0.0, "made up for a test")
EXAMPLE = example_reuse_model()
OTHER = replace(EXAMPLE, near_cuts=(0, 2**38, 2**40), hazard_per_s=EXAMPLE.hazard_per_s[::-1].copy())
MODELS = (
    (EXAMPLE, 12.0, 2.0, 0.0),
    (EXAMPLE, 0.0, 5.0, 0.4),
    (OTHER, 3.0, 1.0, 1.0),
    (EXAMPLE, 12.0, 2.0, 0.0),
    (OTHER, 0.0, 2.0, 0.4),
)
FIXED = (3, 4)
"""Models whose keys do not change while a block lies idle."""
RANK = HostRules("rank", weight_ns=4e9, ghost_ratio=1.0, costs=COSTS)


def rules_of(number: int, admission: Admission = Admission.MARGINAL) -> HostRules:
    """The rules of one of the models."""
    model, device_age_s, tick_s, copy_factor = MODELS[number]
    form = RankForm.FIXED_KEY if number in FIXED else RankForm.HAZARD
    learned = LearnedRules.of(pack(model, device_age_s), tick_s, copy_factor, form=form)
    return HostRules("class_hazard", costs=COSTS, admission=admission, learned=learned)


LEARNED = [rules_of(number) for number in range(len(MODELS))]
PACKED: list[PackedModel] = [pack(model, age_s) for model, age_s, _, _ in MODELS]
GAINS = [gain_table(model, age_s) for model, age_s, _, _ in MODELS]


def key_of(chain: int, depth: int) -> bytes:
    """A key; chains share nothing."""
    return f"{chain}:{depth}".encode()


@dataclass
class Chunk:
    """What the model knows of a resident."""

    parent: bytes | None
    depth: int
    sequence: int
    last_ns: int
    run: Run | None
    in_use: bool
    is_copy: bool = False


@dataclass
class Model:
    """The rule, written down without any data structure."""

    number: int = 0
    chunks: dict[bytes, Chunk] = field(default_factory=dict)
    on_device: set[bytes] = field(default_factory=set)
    sequence: int = 0

    def key(self, name: bytes, chunk: Chunk, began_ns: int) -> tuple[int, int]:
        """Rank and tie-breaker in the tick that began then."""
        if chunk.in_use:
            return IN_USE_KEY, chunk.sequence
        factor = MODELS[self.number][3] if chunk.is_copy and name in self.on_device else 1.0
        if self.number in FIXED:
            return self.fixed_key(chunk, factor), chunk.sequence
        idle_ns, group = chunk.last_ns, 0
        if chunk.run is not None:
            idle_ns = chunk.run.idle_ns
            group = int(classify(MODELS[self.number][0], np.array([chunk.run.features]))[0])
        else:
            factor = 1.0
        age = age_bin(began_ns - idle_ns, PACKED[self.number].edges_ns.astype(np.float64))
        gain = float(GAINS[self.number][group][age])
        value_ns = round_half_up(chunk_value_s(COSTS, chunk.depth, CHUNK_TOKENS) * NS_PER_S)
        return hazard_key(value_ns, gain, factor), chunk.sequence

    def fixed_key(self, chunk: Chunk, factor: float) -> int:
        """The key that does not change: last use, odds of reuse, seconds at stake."""
        model, packed = MODELS[self.number][0], PACKED[self.number]
        scale_ns = 3.0 * model.near.horizon_s * NS_PER_S
        value_ns = round_half_up(chunk_value_s(COSTS, chunk.depth, CHUNK_TOKENS) * NS_PER_S)
        idle_ns, odds = chunk.last_ns, int(packed.near_cuts[0] + packed.far_cuts[0, 0])
        if chunk.run is not None:
            near, far = (int(score_rows(part, np.array([chunk.run.features]))[0]) for part in (model.near, model.far))
            idle_ns, odds = chunk.run.idle_ns, reuse_odds(near, far, chunk.run.uses)
        copy_ns = factor_shift_ns(scale_ns, factor) if factor < 1.0 and chunk.run is not None else 0
        return idle_ns + odds_shift_ns(scale_ns, odds) + value_shift_ns(scale_ns, value_ns) + copy_ns

    def is_spare(self, name: bytes, chunk: Chunk) -> bool:
        """Whether it is a copy of what the device holds too, where such copies leave first."""
        return chunk.is_copy and name in self.on_device and MODELS[self.number][3] == 0.0

    def victims(self, n: int, protected: set[bytes], began_ns: int, wanted: list[int] | None = None) -> list[bytes]:
        """The next ``n`` to leave, or as many as may; each below the rank that is wanted in its place."""
        left, chosen = dict(self.chunks), list[bytes]()
        while len(chosen) < n:
            parents = {chunk.parent for chunk in left.values()}
            free = [
                name
                for name in left
                if name not in protected and (name not in parents or self.is_spare(name, left[name]))
            ]
            if not free:
                break
            name = min(free, key=lambda name: self.key(name, left[name], began_ns))
            if wanted is not None and wanted[len(chosen)] < self.key(name, left[name], began_ns)[0]:
                break
            chosen.append(name)
            del left[name]
        return chosen


class LearnedMachine(RuleBasedStateMachine):
    """Requests come and end, the device gives chunks up, time passes, models change; both must agree on who leaves."""

    @initialize(at_once=st.sampled_from([0, 3, 10**9]), knows_device=st.booleans())
    def start(self, at_once: int, knows_device: bool) -> None:
        """An empty index under the first model."""
        self.now_ns = 10**12
        self.past: RunHistory[bytes] = RunHistory(CHUNK_TOKENS, 1000)
        self.model = Model()
        self.index = HostIndex(CAPACITY, CHUNK_TOKENS, HostRules.lru())
        self.index.past = self.past
        self.index.ranked_at_once = at_once
        self.knows_device = knows_device
        if knows_device:
            self.index.on_device = self.model.on_device.__contains__
        self.index.begin_swap(LEARNED[0], self.now_ns)
        self.index.finish_swap()
        self.next_number: int | None = None
        self.running: list[list[bytes]] = []

    @property
    def began_ns(self) -> int:
        """When the tick that is in force began."""
        ranks = self.index._ranks
        assert isinstance(ranks, HazardRanks)
        return ranks.begins_ns

    @rule(wait_ns=st.integers(0, 4 * 10**9))
    def wait(self, wait_ns: int) -> None:
        """Time passes; where all may be ranked at once, the tick in force is always that of now."""
        self.now_ns += wait_ns
        self.index.at(self.now_ns)
        tick_ns = round(MODELS[self.model.number][2] * NS_PER_S)
        if self.index.ranked_at_once == 10**9 and self.next_number is None and self.model.number not in FIXED:
            assert self.began_ns == self.now_ns // tick_ns * tick_ns

    @rule(chain=st.integers(0, 5), length=st.integers(1, 5))
    def request(self, chain: int, length: int) -> None:
        """A request stores what is missing: it is in use, and outranks everybody else."""
        self.index.at(self.now_ns)
        keys = [key_of(chain, depth) for depth in range(length)]
        missing = [key for key in keys if key not in self.model.chunks]
        parent = keys[keys.index(missing[0]) - 1] if missing and missing[0] != keys[0] else None
        stay = {*keys, parent} - {None}
        free = CAPACITY - len(self.model.chunks)
        n_free = min(free, len(missing))
        wanted = [IN_USE_KEY] * (len(missing) - n_free)
        victims = self.model.victims(len(wanted), stay, self.began_ns, wanted)  # type: ignore[arg-type]
        self.index.protected_parent = parent
        n = self.index.admit([(key, keys.index(key)) for key in missing], free, set(keys), self.now_ns)
        assert n == n_free + len(victims)
        assert self.index.evict(max(0, n - free), set(keys)) == victims
        self.index.protected_parent = None
        self.bring_in(keys, missing[:n], victims, is_use=True)
        self.running.append(keys)

    def bring_in(self, keys: list[bytes], new: list[bytes], victims: list[bytes], *, is_use: bool) -> None:
        """Victims leave, chunks come in."""
        for key in victims:
            del self.model.chunks[key]
        for key in new:
            depth = keys.index(key)
            parent = keys[depth - 1] if depth else None
            self.index.insert(key, parent, depth, self.now_ns, is_use)
            self.index.release(key)
            self.model.sequence += 1
            run = None if is_use else self.past.run_of(key)
            self.model.chunks[key] = Chunk(parent, depth, self.model.sequence, self.now_ns, run, is_use)

    @rule(data=st.data(), tokens=st.integers(0, 9))
    def end(self, data: st.DataObject, tokens: int) -> None:
        """A request ends: its runs are classified, and all its chunks have the rank that follows."""
        if not self.running:
            return
        keys = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        facts = RequestFacts(len(keys) * CHUNK_TOKENS + tokens, output_tokens=tokens, stop=tokens % 3)
        self.past.observe(keys, facts, self.now_ns - 5, self.now_ns)
        self.model.on_device.update(keys)
        self.index.refresh(reversed(keys), (), self.now_ns)
        for key in reversed(keys):
            chunk = self.model.chunks.get(key)
            if chunk is not None:
                self.model.sequence += 1
                chunk.sequence, chunk.last_ns = self.model.sequence, self.now_ns
                chunk.run, chunk.in_use, chunk.is_copy = self.past.run_of(key), False, self.knows_device

    @rule(data=st.data())
    def device_gives_up(self, data: st.DataObject) -> None:
        """The device evicts a chunk; where the host lacks it, it comes in if it outranks who would go."""
        if not self.model.on_device:
            return
        key = data.draw(st.sampled_from(sorted(self.model.on_device)))
        self.model.on_device.remove(key)
        if key in self.model.chunks or self.past.run_of(key) is None:
            return
        self.index.at(self.now_ns)
        chain, depth = (int(part) for part in key.split(b":"))
        keys = [key_of(chain, d) for d in range(depth + 1)]
        parent = keys[depth - 1] if depth else None
        arriving = Chunk(parent, depth, 0, self.now_ns, self.past.run_of(key), in_use=False)
        wanted = [self.model.key(key, arriving, self.began_ns)[0]]
        free = CAPACITY - len(self.model.chunks)
        stay = {key} | ({parent} if parent else set())
        victims = [] if free > 0 else self.model.victims(1, stay, self.began_ns, wanted)
        self.index.protected_parent = parent
        n = self.index.admit([(key, depth)], free, {key}, self.now_ns, is_use=False)
        assert n == (1 if free > 0 else len(victims))
        if n:
            assert self.index.evict(len(victims), {key}) == victims
            self.bring_in(keys, [key], victims, is_use=False)
        self.index.unstage()
        self.index.protected_parent = None

    @rule(n=st.integers(0, 8))
    def evict(self, n: int) -> None:
        """Exactly n leave, or none."""
        self.index.at(self.now_ns)
        expected = self.model.victims(n, set(), self.began_ns)
        found = self.index.evict(n, ())
        assert found == (expected if len(expected) == n else None)
        for key in found or ():
            del self.model.chunks[key]

    @rule(number=st.integers(0, len(MODELS) - 1))
    def another_model(self, number: int) -> None:
        """Another model is being prepared."""
        self.index.begin_swap(LEARNED[number], self.now_ns)
        self.next_number = number

    @rule(n=st.integers(1, 8))
    def prepare(self, n: int) -> None:
        """A slice of the work is done; the rules change when nothing is left."""
        if self.index.advance_swap(n) == 0 and self.next_number is not None:
            self.model.number, self.next_number = self.next_number, None

    @invariant()
    def same_residents(self) -> None:
        """Index and model hold the same, and the heap stays within twice that and a little."""
        if hasattr(self, "model"):
            assert set(self.index.residents) == set(self.model.chunks)
            assert len(self.index._heap) <= 2 * len(self.index.residents) + 65

    def teardown(self) -> None:
        """In the end everything may leave, in the model's order."""
        if hasattr(self, "model"):
            n = len(self.model.chunks)
            assert self.index.evict(n, ()) == self.model.victims(n, set(), self.began_ns)
            assert self.index._chains.orphans == {}


TestLearnedMachine = LearnedMachine.TestCase
TestLearnedMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def filled(n: int) -> HostIndex:
    """An index of many prompts of one chunk, under a learned rule."""
    index = HostIndex(n, CHUNK_TOKENS, HostRules.lru())
    past: RunHistory[bytes] = RunHistory(CHUNK_TOKENS, n)
    index.past = past
    index.begin_swap(LEARNED[0], 0)
    index.finish_swap()
    for number in range(n):
        key = key_of(number, 0)
        index.insert(key, None, 0, number)
        index.release(key)
        past.observe([key], RequestFacts(CHUNK_TOKENS), number, number)
        index.refresh([key], (), number)
    return index


def test_a_tick_that_nobody_prepared_is_not_ranked_in_one_go() -> None:
    """After an idle time the ranks of before hold until slices have done the work; then those of now do."""
    index = filled(1000)
    index.at(100 * NS_PER_S)
    before = index._ranks
    assert index._swap is not None
    assert index._swap.left >= 1000
    steps = 0
    while index._ranks is before:
        index.advance_swap(20)
        index.at(100 * NS_PER_S)
        steps += 1
    assert steps > (1000 - index.ranked_at_once) // 20
    assert isinstance(index._ranks, HazardRanks)
    assert index._ranks.begins_ns == 100 * NS_PER_S


def test_the_next_tick_is_prepared_from_the_middle_of_this_one() -> None:
    """When it begins, nothing is left to do."""
    index = filled(1000)
    prepares = []
    for now_s in (0.9, 1.1):
        index.at(int(now_s * NS_PER_S))
        prepares.append(index.is_changing)
    assert prepares == [False, True]
    index.advance_swap(1000)
    index.advance_swap(1000)  # what changed meanwhile
    assert index._swap is not None
    assert index._swap.left == 0
    ranks = index._swap.ranks
    index.at(2 * NS_PER_S)
    assert index._ranks is ranks


def test_fixed_keys_are_never_ranked_anew() -> None:
    """However long residents lie idle, nothing is prepared and the ranks stay those of before."""
    index = filled(1000)
    index.begin_swap(LEARNED[FIXED[0]], NS_PER_S)
    index.finish_swap()
    ranks = index._ranks
    for at_s in (2, 1_000, 1_000_000):
        index.at(at_s * NS_PER_S)
        assert index._swap is None
        assert index._ranks is ranks


def test_two_orders_in_a_row_lose_nobody() -> None:
    """A resident that nobody touched through several changes of the order still leaves when its turn comes."""
    index = filled(50)
    for rules in (RANK, LEARNED[1], LEARNED[3], LEARNED[2], HostRules.lru(), LEARNED[4], LEARNED[0]):
        index.begin_swap(rules, 10 * NS_PER_S)
        while index.advance_swap(7):
            assert index.evict(60, ()) is None
    for tick in range(11, 40):
        index.at(tick * NS_PER_S)
        index.advance_swap(10)
    assert len(index.evict(50, ()) or ()) == 50
