"""What the page of an online run says in figures, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.core.policy import PolicyDocument
from autotune.core.types import Arm, RankForm, StoreMode
from autotune.core.units import MIB
from autotune.report.facts import Facts, KeyFigure
from autotune.report.formats import duration, number, percent, seconds_decimals, with_percent
from autotune.search.online_run import OnlineRun, why_lru
from autotune.sim.result import Totals

STOCK, STAGED, JOINT = "LRU, eager stores", "LRU, {mode} stores", "one LRU over both tiers, {mode} stores"
_KEYS = {RankForm.HAZARD: "ranked anew in every tick", RankForm.FIXED_KEY: "by fixed keys"}
COLUMNS = ("policy", "device hits (%)", "host hits (%)", "net seconds saved (s)", "cost (s)", "stored (GB)")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        cells: Its texts.
        chosen: Whether it is the run itself.
    """

    cells: tuple[str, ...]
    chosen: bool = False


def arm_name(run: OnlineRun, arm: Arm) -> str:
    """A way to run in words."""
    return lru_names(run)[-1] if arm.form is None else f"learned, {_KEYS[arm.form]}"


def lru_names(run: OnlineRun) -> tuple[str, ...]:
    """LRU as engines do it by themselves, with eager stores and with the run's, and that in which the run begins."""
    mode = run.origin.engine.store_mode
    names = (STOCK,) if mode is StoreMode.EAGER else (STOCK, STAGED, JOINT)
    return tuple(name.format(mode=mode) for name in names)


def headline(run: OnlineRun) -> str:
    """What came of it, in one sentence."""
    gain = run.account.gain
    if run.result.arm is Arm.LRU and run.result.arm_frac[Arm.LRU] >= 1.0:
        return f"It stayed with LRU: {why_lru(run.result)}"
    verb = "saved" if gain.total_frac >= 0.0 else "cost"
    more = "" if gain.total_frac >= 0.0 else " more"
    return f"Learning online {verb} {with_percent(abs(gain.total_frac))}{more} of LRU's critical-path seconds"


def key_figures(run: OnlineRun) -> tuple[KeyFigure, ...]:
    """The figures below the headline."""
    gain, account = run.account.gain, run.account
    obeyed = run.result.learned_frac
    fits = account.fit_seconds
    longest = f"; the longest took {number(max(fits), 2)} s" if fits else ""
    return (
        KeyFigure("By the store mode", with_percent(gain.mode_frac), f"of LRU's cost: {lru_names(run)[-1]}, does it"),
        KeyFigure("By what was learned", with_percent(gain.learning_frac), "of LRU's cost, beyond that"),
        KeyFigure("Obeyed", with_percent(obeyed, 0), "of all requests ran under what was learned"),
        KeyFigure("Fits", str(len(fits)), f"{number(sum(fits), 1)} s in all{longest}"),
    )


def scope_facts(run: OnlineRun, name: str) -> Facts:
    """What was simulated, in short."""
    trace, engine = run.origin.trace, run.origin.engine
    sizes = zip(("device", "host", "disk"), engine.capacities, strict=True)
    measured_s = float(trace.arrival_s[-1] - trace.arrival_s[min(run.start, trace.n_requests - 1)])
    return (
        ("trace", f"{name}: {trace.n_requests:,} requests over {duration(trace.span_s)}"),
        ("model", f"{run.origin.model.name}, {run.origin.model.kv_dtype} KV"),
        ("budget", ", ".join(f"{blocks:,} blocks {tier}" for tier, blocks in sizes if blocks)),
        ("counted", f"the last {duration(measured_s)}: {run.account.live.requests:,} requests"),
        ("at the end", arm_name(run, run.result.arm)),
    )


def rows(run: OnlineRun) -> tuple[Row, ...]:
    """LRU, the run, and what its shadows did."""
    account = run.account
    decimals = seconds_decimals(abs(account.live.net_seconds_saved))
    found = list(zip(lru_names(run), (account.stock, account.staged, account.joint), strict=False))
    found.append(("online", account.live))
    for arm, totals in account.shadows.items():
        if arm is not Arm.LRU:
            found.append((f"{arm_name(run, arm)}, obeyed without a guard (shadow)", totals))
    return tuple(Row((name, *_cells(totals, decimals)), totals is account.live) for name, totals in found)


def _cells(totals: Totals, decimals: int) -> Iterator[str]:
    accesses = max(1, totals.accesses)
    yield percent(totals.device_hit_blocks / accesses)
    yield percent(totals.host_hit_blocks / accesses)
    yield number(totals.net_seconds_saved, decimals)
    yield number(totals.cost_s, decimals)
    yield number(totals.stored_bytes / 1e9)


def happening_rows(run: OnlineRun) -> tuple[tuple[str, ...], ...]:
    """What the loop did: when, after how many requests, what, and why."""
    arms = {arm.name.lower(): f"{arm_name(run, arm)}, from here on" for arm in Arm}
    words = arms | {"fitted": "a model was fitted", "waits": "no model yet"}
    return tuple(
        (duration(item.at_s), f"{item.request:,}", words.get(item.kind, item.kind), item.reason)
        for item in run.result.happenings
    )


def run_facts(run: OnlineRun, document: PolicyDocument) -> Facts:
    """Speed, memory, and what was written."""
    account, promise = run.account, document.expectation
    written = f"kind {document.kind}"
    if promise is not None:
        gain = promise.gain_frac
        written += (
            f"; it promises {with_percent(gain.value)} ({with_percent(gain.low)} to {with_percent(gain.high)}) of "
            f"LRU's cost, judged on {promise.measured_on}"
        )
    return (
        ("block accesses per second", f"{number(account.accesses_per_s)}, fits included"),
        ("peak memory", f"{number(account.memory.peak_bytes / MIB)} MiB"),
        ("of it by this run", f"{number(account.memory.grown_bytes / MIB)} MiB"),
        ("seed", str(run.origin.seed)),
        ("timing", str(run.origin.engine.timing)),
        ("costs", run.origin.costs.source),
        ("policy.yaml", written),
    )
