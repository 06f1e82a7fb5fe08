"""Shadow policies: LRU, the live policy and candidates on ghost caches, so that regret is measured, not hoped.

Every request that telemetry tells about is priced; those of a sample of chains (:mod:`.shadow_sampling`) also go
through one ghost cache per policy, sized to the sample. Policies that join later, or change, are first led through the
newest requests of the sample, which are kept for that, and so are all of them after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.core.access import AccessRecord
from autotune.core.costs import CostProfile
from autotune.core.decide.value import prefill_s
from autotune.core.errors import ConfigError
from autotune.core.units import NS_PER_S
from autotune.daemon.shadow_cache import Asked, ShadowCache, ShadowEngine, ShadowPolicy
from autotune.daemon.shadow_history import PastRequest, ShadowHistory
from autotune.daemon.shadow_ledger import ShadowLedger, ShadowReport, Tally
from autotune.daemon.shadow_sampling import ChainSampler, group_of, sampled_frac
from autotune.daemon.shadow_snapshot import PeriodText, PolicyText, ShadowSnapshot

_UNSIGNED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """Bounds.

    Attributes:
        least_blocks: What the smallest tier of a sampled cache holds at least.
        most_blocks: What both tiers hold at most, as far as the bound above allows.
        accesses_per_s: Block accesses that all shadows together may process per second; above, the sample is halved.
        period_requests: Requests of one period of the ledger.
        max_periods: Periods that are kept.
        history_turnovers: How many times the blocks of a sampled cache the kept requests name.
        frac: Share of chains, instead of one that follows from the bounds.
        salt: Draws another sample.
    """

    least_blocks: int = 512
    most_blocks: int = 16_384
    accesses_per_s: float = 500.0
    period_requests: int = 256
    max_periods: int = 60
    history_turnovers: float = 3.0
    frac: float | None = None
    salt: int = 0


class Shadows:
    """A ghost cache per policy, on one sample.

    Args:
        engine: The engine that they stand in for.
        costs: What recompute and transfers cost.
        live: The policy in force.
        others: LRU and candidates.
        settings: Bounds.

    Raises:
        ConfigError: two policies have one name.
        UnknownNameError: no policy of some name is registered.
        PolicyError: a parameter of one is unknown or out of range.
    """

    def __init__(
        self,
        engine: ShadowEngine,
        costs: CostProfile,
        live: ShadowPolicy,
        others: Sequence[ShadowPolicy] = (),
        settings: ShadowSettings = ShadowSettings(),
    ) -> None:
        self.engine, self.settings, self._costs = engine, settings, costs
        capacities = [blocks for blocks in (engine.device_blocks, engine.host_blocks) if blocks]
        frac = settings.frac or sampled_frac(capacities, settings.least_blocks, settings.most_blocks)
        self._sampler = ChainSampler(frac, settings.salt)
        self._ledger = ShadowLedger(settings.period_requests, settings.max_periods)
        self._history = ShadowHistory(self._history_blocks())
        self._open: list[AccessRecord] = []
        self._epoch: int | None = None
        self._n_requests = 0
        self._load = _Load()
        self._caches: dict[str, ShadowCache] = {}
        self.live = live.name
        self.follow(live, others)

    # What they obey

    @property
    def policies(self) -> tuple[ShadowPolicy, ...]:
        """The live policy first."""
        return tuple(cache.policy for cache in self._caches.values())

    @property
    def sampled_frac(self) -> float:
        """Share of chains in the sample."""
        return self._sampler.frac

    def follow(self, live: ShadowPolicy, others: Sequence[ShadowPolicy] = ()) -> None:
        """Obey these from now on; a policy that is new or differs starts on the newest requests, uncounted.

        Raises:
            ConfigError: two policies have one name.
        """
        wanted = (live, *others)
        names = [policy.name for policy in wanted]
        if len(set(names)) != len(names):
            raise ConfigError("every shadow has a name of its own", got=", ".join(names))
        known = self._caches
        self._caches = {
            policy.name: known[policy.name]
            if policy.name in known and known[policy.name].policy == policy
            else self._rebuilt(policy)
            for policy in wanted
        }
        self.live = live.name

    def reprice(self, costs: CostProfile) -> None:
        """Count with these costs from now on; caches are left as they are."""
        self._costs = costs
        for cache in self._caches.values():
            cache.costs = costs

    # What they are told

    def observe(self, record: AccessRecord) -> None:
        """One run of a request. A request is complete when another one's run comes, or at :meth:`flush`."""
        if self._open and (record.epoch, record.request) != (self._open[0].epoch, self._open[0].request):
            self.flush()
        self._open.append(record)

    def flush(self) -> None:
        """The request whose runs came last is complete."""
        runs, self._open = sorted(self._open, key=lambda run: run.first_depth_blocks), []
        if not runs:
            return
        if runs[0].epoch != self._epoch:
            self._begin_epoch(runs[0].epoch)
        blocks = [block & _UNSIGNED for run in runs for block in run.block_ids]
        self._request(round(runs[0].time_s * NS_PER_S), blocks, sum(run.tokens for run in runs))

    def _begin_epoch(self, epoch: int) -> None:
        """The engine's cache is empty, or what happened to it is not known: so are the ghost caches."""
        self._epoch = epoch
        self._history.thin(())
        self._load = _Load()
        self._caches = {name: self._rebuilt(cache.policy) for name, cache in self._caches.items()}

    def _request(self, time_ns: int, blocks: list[int], input_tokens: int) -> None:
        costs = self._costs
        no_cache_s = prefill_s(input_tokens, costs.prefill_linear_s, costs.prefill_quadratic_s)
        self._ledger.note(no_cache_s)
        place = self._sampler.place(blocks)
        if not blocks or not self._sampler.holds(place):
            return
        past = PastRequest(time_ns, blocks, input_tokens, place)
        self._history.add(past)
        self._count(past, no_cache_s)
        if self._load.is_above(self.settings.accesses_per_s, time_ns, len(blocks) * len(self._caches)):
            self._halve()

    def _count(self, past: PastRequest, no_cache_s: float) -> None:
        period, group = self._ledger.current, group_of(past.place)
        period.sampled_s[group] += no_cache_s
        period.blocks += len(past.blocks)
        asked = self._asked(past)
        for name, cache in self._caches.items():
            served = cache.serve(asked)
            tally = period.shadows.setdefault(name, Tally())
            tally.cost_s[group] += served.cost_s
            tally.device_blocks += served.device_blocks
            tally.host_blocks += served.host_blocks
            tally.stored_blocks += served.stored_blocks

    def _asked(self, past: PastRequest) -> Asked:
        self._n_requests += 1
        return Asked.of(self._n_requests, past.time_ns, past.blocks, past.input_tokens)

    # The sample

    def _halve(self) -> None:
        """See half of the chains; the smallest tier keeps a few hundred blocks, come what may."""
        smallest = min(blocks for blocks in (self.engine.device_blocks, self.engine.host_blocks) if blocks)
        if smallest * self._sampler.frac < self.settings.least_blocks:
            return
        self._sampler.frac *= 0.5
        self._history.thin([past for past in self._history if self._sampler.holds(past.place)])
        # What was counted on another sample is not added to what comes.
        self._ledger = ShadowLedger(self.settings.period_requests, self.settings.max_periods)
        self._caches = {name: self._rebuilt(cache.policy) for name, cache in self._caches.items()}

    def _rebuilt(self, policy: ShadowPolicy) -> ShadowCache:
        """A ghost cache after the newest requests of the sample."""
        cache = ShadowCache(policy, self.engine.scaled(self._sampler.frac), self._costs)
        for past in self._history:
            cache.serve(self._asked(past))
        return cache

    def _history_blocks(self) -> int:
        scaled = self.engine.scaled(self._sampler.frac)
        return round(self.settings.history_turnovers * (scaled.device_blocks + scaled.host_blocks)) + 1

    # What comes of it

    def reports(self) -> tuple[ShadowReport, ...]:
        """The live policy first, then the others; those that nothing has been seen of are left out."""
        found = (self._ledger.report(name, self.live, self.sampled_frac) for name in self._caches)
        return tuple(report for report in found if report is not None)

    def snapshot(self) -> ShadowSnapshot:
        """What a checkpoint keeps; the request whose runs still come is left out."""
        engine = self.engine
        return ShadowSnapshot(
            version=1,
            device_blocks=engine.device_blocks,
            host_blocks=engine.host_blocks,
            block_tokens=engine.block_tokens,
            full_blocks=engine.full_blocks,
            frac=self._sampler.frac,
            salt=self._sampler.salt,
            epoch=self._epoch,
            requests=self._n_requests,
            live=self.live,
            policies=tuple(PolicyText.of(policy) for policy in self.policies),
            periods=tuple(PeriodText.of(period) for period in self._ledger.periods),
            history=self._history.text(),
        )

    @classmethod
    def restored(
        cls, snapshot: ShadowSnapshot, costs: CostProfile, settings: ShadowSettings = ShadowSettings()
    ) -> Shadows:
        """Shadows that go on where a snapshot was taken, their caches rebuilt from the requests that it kept.

        Raises:
            ConfigError: its parts do not fit together.
            UnknownNameError: a policy that it names is not registered any more.
        """
        live, *others = (text.policy() for text in snapshot.policies)
        shadows = cls(snapshot.engine, costs, live, (), settings)
        shadows._sampler = ChainSampler(snapshot.frac, snapshot.salt)
        shadows._history = ShadowHistory(shadows._history_blocks())
        shadows._history.take(snapshot.history)
        for past in shadows._history:  # which blocks are shared is learned again
            shadows._sampler.place(past.blocks)
        shadows._ledger.periods.clear()
        shadows._ledger.periods.extend(text.period() for text in snapshot.periods)
        shadows._epoch = snapshot.epoch
        shadows._caches = {}
        shadows.follow(live, others)
        shadows._n_requests = max(shadows._n_requests, snapshot.requests)
        return shadows


class _Load:
    """Accesses per second, over stretches of time that are long enough to tell."""

    _STRETCH_NS = 30 * NS_PER_S

    def __init__(self) -> None:
        self._since_ns: int | None = None
        self._accesses = 0

    def is_above(self, most_per_s: float, now_ns: int, accesses: int) -> bool:
        """Count some more; whether the stretch that ends now had too many."""
        since_ns = self._since_ns = now_ns if self._since_ns is None else self._since_ns
        self._accesses += accesses
        if now_ns - since_ns < self._STRETCH_NS:
            return False
        rate = self._accesses * NS_PER_S / (now_ns - since_ns)
        self._since_ns, self._accesses = now_ns, 0
        return rate > most_per_s


def observe_all(shadows: Shadows, records: Iterable[AccessRecord]) -> Shadows:
    """Tell shadows about all of these, the last request included."""
    for record in records:
        shadows.observe(record)
    shadows.flush()
    return shadows
