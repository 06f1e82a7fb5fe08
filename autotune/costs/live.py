"""Costs of a running engine, learned record by record: the same interface as a hardware table, with evidence.

Everything is bounded: windows of the newest observations, and a sample of the blocks. Nothing is kept over a restart of
the process; whoever starts again feeds the recorded past first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.core.access import AccessRecord
from autotune.core.break_even import break_even_tokens
from autotune.core.costs import CostProfile
from autotune.core.estimates import Estimate
from autotune.core.shapes import LinkSpec
from autotune.core.telemetry.wire import Direction, TransferRecord
from autotune.costs.exposed_wait import ExposedWait, PreemptionCost
from autotune.costs.model import STORE_EXPOSED, BreakEven, CostModel, first_length
from autotune.costs.recompute import RecomputeFit, RecomputeModel
from autotune.costs.reuse_gaps import MAX_FOLLOWED, ReuseCurve, ReuseGaps
from autotune.costs.transfer import TransferFit, TransferModel

HORIZONS_S = (60.0, 600.0, 3_600.0)
_REFIT_SHARE = 16  # a fit is done anew once there is a sixteenth more to learn from …
_REFIT_S = 60.0  # … or after so long, as old observations leave the window
_TYPICAL_TOKENS = 2_048.0
_LEAST_FRAC = 1e-6  # of the table's seconds per token: a prompt never costs nothing


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Bounds of what is remembered.

    Attributes:
        max_samples: Most prefills, and most copies of each direction, that count.
        window_s: Observations older than this no longer count.
        max_followed_blocks: Most blocks that are followed from use to use.
    """

    max_samples: int = 4_096
    window_s: float = 3_600.0
    max_followed_blocks: int = MAX_FOLLOWED


class LiveCosts:
    """Learns what recompute, loads, stores and preemptions cost on one engine, and how soon blocks are used again.

    Times are seconds on one clock that the caller chooses. Those of records count from the start of an epoch, so the
    caller says when that was (:meth:`begin_epoch`).

    Args:
        table: What is assumed before anything was measured.
        block_tokens: Tokens of one block of the records.
        settings: Bounds.
    """

    def __init__(self, table: CostModel, block_tokens: int, settings: LiveSettings = LiveSettings()) -> None:
        self._table = assumed = table.profile()
        self._block_tokens = block_tokens
        bounds = (settings.max_samples, settings.window_s)
        self._recompute = RecomputeModel(assumed, *bounds)
        load = LinkSpec(assumed.load_bytes_per_s, assumed.load_latency_s)
        store = LinkSpec(assumed.store_bytes_per_s, assumed.store_latency_s)
        self._links = {
            Direction.LOAD: TransferModel(load, assumed.source, *bounds),
            Direction.STORE: TransferModel(store, assumed.source, *bounds),
        }
        self._exposed = ExposedWait(STORE_EXPOSED, assumed.store_exposed_frac, assumed.source, window_s=bounds[1])
        self._preemption = PreemptionCost(window_s=bounds[1])
        self._gaps = ReuseGaps(max_followed=settings.max_followed_blocks)
        self._epoch: int | None = None
        self._epoch_start_s = 0.0
        self._now_s = 0.0
        self._fits: _Fits | None = None

    # Records

    def begin_epoch(self, epoch: int, start_s: float) -> None:
        """Records of this epoch count their time from ``start_s``; nothing in them is joined to what was."""
        if epoch != self._epoch:
            self._gaps.restart()
        self._epoch, self._epoch_start_s = epoch, start_s

    def access(self, record: AccessRecord) -> None:
        """What one request did to one run of blocks: how soon they came back and, where computed, how long it took."""
        at_s = self._at_s(record.epoch, record.time_s)
        self._gaps.observe(at_s, record.block_ids)
        if record.tier is None:
            self._recompute.observe(at_s, record.first_depth_blocks * self._block_tokens, record.tokens, record.seconds)

    def transfer(self, record: TransferRecord) -> None:
        """A finished copy."""
        at_s = self._at_s(record.epoch, record.time_s)
        self._links[record.direction].observe(at_s, record.moved_bytes, record.seconds)

    # Counters

    def prefills(self, at_s: float, requests: float, tokens: float, pairs: float, seconds: float) -> None:
        """Prefills of several requests together, as an engine's counters tell them over an interval."""
        self._now_s = max(self._now_s, at_s)
        self._recompute.observe_sum(at_s, requests, tokens, pairs, seconds)

    def copies(self, at_s: float, direction: Direction, copies: float, moved_bytes: float, seconds: float) -> None:
        """Copies of one direction together, likewise."""
        self._now_s = max(self._now_s, at_s)
        self._links[direction].observe(at_s, moved_bytes, seconds, 1.0, copies)

    def exposure(self, at_s: float, observed_s: float, computed_s: float, copied_s: float) -> None:
        """An interval: seconds that requests spent in prefill, what their tokens should take, seconds of stores."""
        self._now_s = max(self._now_s, at_s)
        self._exposed.observe(at_s, observed_s, computed_s, copied_s)

    def preemption(self, at_s: float, seconds: float, events: float = 1.0) -> None:
        """Seconds lost by preemptions."""
        self._now_s = max(self._now_s, at_s)
        self._preemption.observe(at_s, seconds, events)

    # What was learned

    def profile(self) -> CostProfile:
        """The coefficients as of the newest observation."""
        fits = self._fitted(self._now_s)
        recompute, load, store = fits.recompute, fits.load, fits.store
        return replace(
            self._table,
            prefill_linear_s=max(recompute.linear_s, self._table.prefill_linear_s * _LEAST_FRAC),
            prefill_quadratic_s=recompute.quadratic_s,
            load_bytes_per_s=load.bytes_per_s,
            load_latency_s=load.latency_s,
            store_bytes_per_s=store.bytes_per_s,
            store_latency_s=store.latency_s,
            store_exposed_frac=self._exposed.estimate(self._now_s).value,
            source=fits.source(self._table.source),
        )

    def estimates(self, now_s: float) -> tuple[Estimate, ...]:
        """Every cost and the probability of reuse within some times, with interval, evidence and age."""
        fits = self._fitted(now_s)
        load, store = (self._links[direction].window.age_s(now_s) for direction in (Direction.LOAD, Direction.STORE))
        curve = self.reuse(now_s)
        return (
            *fits.recompute.estimates(self._recompute.window.age_s(now_s)),
            *fits.load.estimates("load", load),
            *fits.store.estimates("store", store),
            self._exposed.estimate(now_s),
            self._preemption.estimate(now_s, fits.recompute.seconds(0.0, _TYPICAL_TOKENS)[0]),
            *(curve.within(horizon_s) for horizon_s in HORIZONS_S),
        )

    def reuse(self, now_s: float) -> ReuseCurve:
        """How soon blocks are used again."""
        return self._gaps.curve(now_s)

    def break_even(self, now_s: float, start_tokens: int = 0, block_tokens: int = 1) -> BreakEven:
        """Length of the shortest run that is worth loading.

        Its bounds are where the intervals of recompute and load of a run, rather than of each coefficient, part: what
        all prompts of one length say together is known better than either of their coefficients.
        """
        fits, token_bytes = self._fitted(now_s), self._table.kv_bytes_per_token

        def recompute_s(n_tokens: int) -> tuple[float, float, float]:
            return fits.recompute.seconds(start_tokens, n_tokens)

        def load_s(n_tokens: int) -> tuple[float, float, float]:
            return fits.load.seconds(n_tokens * token_bytes)

        soon = first_length(lambda n: load_s(n)[1] < recompute_s(n)[2], block_tokens)
        late = first_length(lambda n: load_s(n)[2] < recompute_s(n)[1], block_tokens)
        value = break_even_tokens(self.profile(), start_tokens, block_tokens)
        if value is None:
            return BreakEven(None, soon, None)
        return BreakEven(value, min(soon or value, value), None if late is None else max(late, value))

    def _at_s(self, epoch: int, time_s: float) -> float:
        if epoch != self._epoch:  # nobody said when it began: at the newest moment that is known
            self.begin_epoch(epoch, self._now_s)
        at_s = self._epoch_start_s + time_s
        self._now_s = max(self._now_s, at_s)
        return at_s

    def _fitted(self, now_s: float) -> _Fits:
        windows = (self._recompute.window, *(link.window for link in self._links.values()))
        seen = tuple(window.seen for window in windows)
        if self._fits is None or self._fits.is_old(seen, now_s):
            load, store = (self._links[way].fit(now_s) for way in (Direction.LOAD, Direction.STORE))
            self._fits = _Fits(seen, now_s, self._recompute.fit(now_s), load, store)
        return self._fits


@dataclass(frozen=True, slots=True)
class _Fits:
    """The regressions, and what they were done on."""

    seen: tuple[int, ...]
    at_s: float
    recompute: RecomputeFit
    load: TransferFit
    store: TransferFit

    def is_old(self, seen: tuple[int, ...], now_s: float) -> bool:
        grown = any((new - old) * _REFIT_SHARE > old for old, new in zip(self.seen, seen, strict=True))
        return grown or now_s - self.at_s > _REFIT_S

    def source(self, table: str) -> str:
        parts = (("prefill", self.recompute), ("loads", self.load), ("stores", self.store))
        told = [f"{name}: {fit.source}" for name, fit in parts if fit.samples]
        return "; ".join([*told, "the rest: " + table]) if told else table
