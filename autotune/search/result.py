"""What a tuning run found, as plain values: everything that the report, the table and the policy document show."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.core.costs import CostProfile
from autotune.core.policy import PolicyDocument
from autotune.core.types import RankForm, StoreMode
from autotune.search.setting import Setting


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence bounds."""

    value: float
    low: float
    high: float


NO_GAIN = Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One policy on the held-out part.

    Attributes:
        name: ``lru``, ``arc``, ``s3fifo``, ``tuned``, ``random search``, ``clairvoyant`` …
        device_hit_frac: Share of block accesses found on the device.
        host_hit_frac: Share of block accesses loaded from the host.
        disk_hit_frac: Share of block accesses loaded from disk.
        token_hit_frac: Share of prompt tokens that needed no prefill.
        net_seconds_saved: Recompute saved - load - exposed store.
        cost_s: Recompute + load + exposed store.
        gap_closed_frac: Share of the cost gap from LRU (0) to the clairvoyant (1) that it closes; None if there is no
            gap.
        hit_gap_closed_frac: The same for block hits.
        stored_bytes: Bytes stored to the host.
        loaded_bytes: Bytes loaded to the device.
        ttft_p50_s: Median time to first token; None where TTFT is not reported.
        ttft_p95_s: 95th percentile, likewise.
        ttft_p99_s: 99th percentile, likewise.
        goodput_frac: Share of requests within the TTFT target, likewise.
    """

    name: str
    device_hit_frac: float
    host_hit_frac: float
    disk_hit_frac: float
    token_hit_frac: float
    net_seconds_saved: float
    cost_s: float
    gap_closed_frac: float | None
    hit_gap_closed_frac: float | None
    stored_bytes: int
    loaded_bytes: int
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    goodput_frac: float | None = None

    @property
    def stored_per_loaded(self) -> float | None:
        """Bytes stored for each byte ever loaded; None if nothing was loaded."""
        return self.stored_bytes / self.loaded_bytes if self.loaded_bytes else None


@dataclass(frozen=True, slots=True)
class TierSizes:
    """Capacities of an engine, in blocks of the trace."""

    device_blocks: int
    host_blocks: int
    disk_blocks: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One policy over the capacity of one tier, the other tiers as budgeted, on the held-out part.

    Attributes:
        policy: ``lru``, ``tuned`` or ``clairvoyant``.
        tier: ``device`` or ``host``.
        capacity_bytes: ``(n_points,)`` capacities of that tier.
        hit_frac: ``(n_points,)`` share of block accesses found on any tier.
        net_seconds_saved: ``(n_points,)`` seconds.
    """

    policy: str
    tier: str
    capacity_bytes: tuple[float, ...]
    hit_frac: tuple[float, ...]
    net_seconds_saved: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MarginalValue:
    """Seconds saved by one more GiB of a tier under the chosen setting, per hour of traffic; with the turnover."""

    tier: str
    seconds_per_gib_hour: float
    turnover_s: float


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One time window of the whole trace under the chosen setting and under LRU.

    Attributes:
        start_s: Start of the window.
        accesses: Block accesses in it.
        device_hit_blocks: KEEP that paid: found on the device.
        loaded_blocks: OFFLOAD that paid: loaded from host or disk.
        computed_blocks: Neither.
        stored_blocks: OFFLOAD decisions: stored to the host.
        evicted_host_blocks: EVICT decisions: left the host.
        cost_s: Critical-path seconds under the chosen setting.
        baseline_cost_s: Critical-path seconds under LRU.
    """

    start_s: float
    accesses: int
    device_hit_blocks: int
    loaded_blocks: int
    computed_blocks: int
    stored_blocks: int
    evicted_host_blocks: int
    cost_s: float
    baseline_cost_s: float


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One evaluated setting.

    Attributes:
        number: Order of evaluation within its study.
        study: Name of the sampler (``tpe``, ``random`` …).
        setting: What was tried.
        value: Objective, to be minimised (relative to LRU's: below 0 is better than LRU).
        feasible: Whether it keeps all constraints.
    """

    number: int
    study: str
    setting: Setting
    value: float
    feasible: bool = True


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """The trace, in a few numbers.

    Attributes:
        name: ``FORMAT:FILE`` as given.
        requests: Number of requests.
        accesses: Block accesses.
        span_s: Seconds from first to last arrival.
        footprint_bytes: Bytes of all distinct blocks.
        block_tokens: Tokens per block.
        reuse_frac: Share of accesses that an infinite cache would find.
        gap_edges_s: ``(n_bins + 1,)`` edges of the reuse-gap histogram.
        gap_counts: ``(n_bins,)`` reuses per bin.
    """

    name: str
    requests: int
    accesses: int
    span_s: float
    footprint_bytes: int
    block_tokens: int
    reuse_frac: float
    gap_edges_s: tuple[float, ...]
    gap_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModeRow:
    """A store mode of the learned rule on the later part of the past, which its fit had not seen.

    Attributes:
        mode: The mode.
        gain_frac: Share of LRU's cost saved there.
        form: How the rule ranked blocks.
    """

    mode: StoreMode
    gain_frac: float
    form: RankForm = RankForm.HAZARD


@dataclass(frozen=True, slots=True)
class LearnedReport:
    """What became of the learned rule.

    Attributes:
        reason: Why it may be published or not, or why there is none.
        store_mode: The mode that was chosen for it; None where there is no rule.
        mode_gain_frac: Share of LRU's cost on the held-out part that one LRU over both tiers with that mode saves.
        learning_gain_frac: What the rule saves beyond that, as a share of the same.
        modes: Every store mode with every form of the rule on the past, the chosen pair first.
        rows: Runs of blocks that it was fitted on.
        fit_seconds: How long the fit took.
        horizons_s: Near and far horizon.
        form: How the rule ranks blocks.
    """

    reason: str
    store_mode: StoreMode | None = None
    mode_gain_frac: float = 0.0
    learning_gain_frac: float = 0.0
    modes: tuple[ModeRow, ...] = ()
    rows: int = 0
    fit_seconds: float = field(default=0.0, compare=False)
    horizons_s: tuple[float, float] = (0.0, 0.0)
    form: RankForm = RankForm.HAZARD


@dataclass(frozen=True, slots=True)
class TuneResult:
    """Everything that a tuning run found.

    Attributes:
        document: The policy to publish.
        verdict: One sentence for the top of the report.
        chosen: ``lru`` where nothing changes, ``rank``, ``tuned lru`` where only other knobs than the rank's turned, or
            ``learned``.
        reason: Why it was chosen, in one sentence.
        setting: The chosen setting.
        gain_frac: Share of LRU's cost on the held-out part that the chosen setting saves.
        gap_closed_frac: Share of the LRU-to-clairvoyant cost gap on the held-out part; None if there is no gap.
        confidence: Confidence level of the bounds.
        trace: The trace in numbers.
        sizes: Capacities in blocks.
        budgets_bytes: Bytes of device, host and disk.
        costs: The cost model.
        fit_until_s: End of the past that was tuned on.
        measured_from_s: Start of the held-out part.
        rows: Policies on the held-out part.
        curves: Hit rate and net seconds over capacity.
        marginal: Value of the next GiB per tier.
        windows: Decisions over time.
        trials: All evaluated settings, of the search and of random search beside it.
        importance: ``(knob, share)`` by how much it explains the objective, largest first.
        break_even_tokens: Shortest run whose load is cheaper than recomputing it; None if none is.
        ttft_note: Why TTFT is reported or not.
        assumptions: What was assumed, one sentence each.
        wall_s: Seconds that the run took.
        learned: What became of the learned rule.
    """

    document: PolicyDocument
    verdict: str
    chosen: str
    reason: str
    setting: Setting
    gain_frac: Interval
    gap_closed_frac: float | None
    confidence: float
    trace: TraceSummary
    sizes: TierSizes
    budgets_bytes: tuple[int, int, int]
    costs: CostProfile
    fit_until_s: float
    measured_from_s: float
    rows: tuple[PolicyRow, ...]
    curves: tuple[Curve, ...]
    marginal: tuple[MarginalValue, ...]
    windows: tuple[WindowRow, ...]
    trials: tuple[TrialRow, ...]
    importance: tuple[tuple[str, float], ...]
    break_even_tokens: int | None
    ttft_note: str
    assumptions: tuple[str, ...]
    wall_s: float
    learned: LearnedReport = LearnedReport("")

    @property
    def n_trials(self) -> int:
        """Settings that the search tried; those of random search beside it do not count."""
        return sum(row.study == self.trials[0].study for row in self.trials)
