"""What the report says in figures and short facts, as text."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.policy import Provenance, SimulationFacts, document_hash
from autotune.core.units import GB, MS_PER_S
from autotune.report.columns import baseline_row, chosen_row
from autotune.report.formats import ABSENT, duration, gib, number, with_percent
from autotune.report.labels import BASELINE, BOUNDS, LEARNED, short_setting
from autotune.report.sentences import break_even_sentence
from autotune.search.result import TuneResult

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One figure to remember.

    Attributes:
        heading: What it is.
        value: The figure itself, short.
        note: How to read it.
    """

    heading: str
    value: str
    note: str


def key_figures(result: TuneResult) -> tuple[KeyFigure, ...]:
    """The figures below the verdict."""
    return (_gain(result), _gap(result), _stored_per_loaded(result), _setting(result))


def scope_facts(result: TuneResult) -> Facts:
    """What was tuned for what, in short."""
    trace = result.trace
    held_out_s = max(trace.span_s - result.measured_from_s, 0.0)
    return (
        ("trace", f"{trace.name}: {trace.requests:,} requests over {duration(trace.span_s)}"),
        ("model", f"{result.document.fingerprint.model}, {result.document.fingerprint.kv_dtype} KV"),
        ("budget", _budgets(result)),
        ("judged on", f"the last {duration(held_out_s)}, after what was tuned on"),
    )


def trace_facts(result: TuneResult) -> Facts:
    """The trace in numbers."""
    trace = result.trace
    return (
        ("name", trace.name),
        ("requests", f"{trace.requests:,}"),
        ("span", duration(trace.span_s)),
        ("block accesses", f"{trace.accesses:,} of {trace.block_tokens:,} tokens each"),
        ("all different blocks together", gib(trace.footprint_bytes)),
        ("accesses that an infinite cache would find", with_percent(trace.reuse_frac)),
        ("tuned on", f"the first {duration(result.fit_until_s)}"),
        ("judged on", f"what came from {duration(result.measured_from_s)} on"),
    )


def cost_facts(result: TuneResult) -> Facts:
    """The cost model in the units that people compare."""
    costs = result.costs
    prompt_s = float(costs.prefill_s(8192))
    return (
        ("prefill", f"{costs.prefill_linear_s * 1e6:.4g} µs per token"),
        ("attention", f"{costs.prefill_quadratic_s * 1e12:.4g} ps per pair of tokens"),
        ("a prompt of 8,192 tokens", f"{number(prompt_s * MS_PER_S)} ms of prefill"),
        ("KV per token", f"{costs.kv_bytes_per_token:,} bytes"),
        ("host to device", _link(costs.load_bytes_per_s, costs.load_latency_s)),
        ("device to host", _link(costs.store_bytes_per_s, costs.store_latency_s)),
        ("disk to host", _link(costs.disk_bytes_per_s, costs.disk_latency_s)),
        ("store time that delays requests", with_percent(costs.store_exposed_frac)),
        ("load or recompute", break_even_sentence(result)),
        ("source", costs.source),
    )


def provenance_facts(result: TuneResult) -> Facts:
    """Where the result came from: enough to run it again."""
    provenance = result.document.provenance
    facts = () if provenance is None else _recorded_facts(provenance)
    return (
        *facts,
        ("policy", f"sha256 {document_hash(result.document)}"),
        ("settings tried", f"{len(result.trials):,}"),
        ("wall time", duration(result.wall_s)),
    )


def _recorded_facts(provenance: Provenance) -> Facts:
    trace, simulation = provenance.trace, provenance.simulation
    options = ", ".join(f"{option.name}={option.value}" for option in trace.options)
    skipped = ", ".join(f"{rows.rows:,} × {rows.fault}" for rows in trace.skipped_rows)
    facts = [
        ("kv-autotune", provenance.tool_version),
        ("trace format", trace.format),
        ("trace files", ", ".join(trace.paths) or ABSENT),
        ("trace content", f"sha256 {trace.sha256}"),
        ("reader options", options),
        ("rows left out", skipped),
        ("sampler and seed", f"{provenance.sampler}, seed {provenance.seed}"),
        ("simulation", _simulation(simulation)),
        ("packages", ", ".join(f"{package.name} {package.version}" for package in provenance.packages)),
    ]
    return tuple((name, value) for name, value in facts if value)


def _simulation(facts: SimulationFacts) -> str:
    blocks = "full blocks only" if facts.full_blocks else "all blocks"
    return f"{facts.timing} timing, {blocks}, engine {facts.engine}"


def _gain(result: TuneResult) -> KeyFigure:
    if result.chosen == BASELINE:
        return KeyFigure("Expected gain", with_percent(0.0), "LRU stays, so the cost stays what it is")
    gain = result.gain_frac
    bounds = f"{with_percent(gain.low)} to {with_percent(gain.high)}"
    note = f"of LRU's cost; {bounds} at {100 * result.confidence:g} % confidence"
    return KeyFigure("Expected gain", with_percent(gain.value), note)


def _gap(result: TuneResult) -> KeyFigure:
    """What is left to a policy that knows the future, and how much of it was reached."""
    heading, bound_saves_frac = "Gap closed", _bound_saves_frac(result)
    if not bound_saves_frac:
        return KeyFigure(heading, ABSENT, "LRU costs no more than a policy that knows the future")
    if result.gap_closed_frac is None:
        saves = with_percent(bound_saves_frac)
        return KeyFigure(heading, with_percent(0.0), f"a policy that knows the future would save {saves} of LRU's cost")
    note = "of what separates LRU's cost from that of a policy that knows the future"
    return KeyFigure(heading, with_percent(result.gap_closed_frac), note)


def _bound_saves_frac(result: TuneResult) -> float:
    """Share of LRU's cost that the bound saves; 0 where there is no bound or no gap to it."""
    baseline = baseline_row(result)
    bound = next((row for row in result.rows if row.name in BOUNDS), None)
    if baseline is None or bound is None or baseline.cost_s <= 0.0:
        return 0.0
    return max(0.0, 1.0 - bound.cost_s / baseline.cost_s)


def _stored_per_loaded(result: TuneResult) -> KeyFigure:
    heading = "Stored ÷ loaded"
    if not result.sizes.host_blocks:
        return KeyFigure(heading, ABSENT, "there is no host tier")
    chosen, baseline = chosen_row(result), baseline_row(result)
    value = number(chosen.stored_per_loaded if chosen else None, 2)
    note = "bytes stored for each byte loaded back"
    if baseline is not None and baseline is not chosen:
        note += f"; {number(baseline.stored_per_loaded, 2)} under LRU"
    return KeyFigure(heading, value, note)


def _setting(result: TuneResult) -> KeyFigure:
    heading, setting = "Chosen setting", result.setting
    if result.chosen == LEARNED:
        note = "blocks are ranked by what a learned model expects of them; all tables are in the policy"
        return KeyFigure(heading, f"learned, {result.learned.store_mode} stores", note)
    if setting.lambda_recency >= 1.0:
        return KeyFigure(heading, short_setting(setting), "the engine's own rule; all values are listed below")
    note = f"recency against value (1 is LRU), on a time scale of {setting.tau_turnovers:.3g} turnovers"
    return KeyFigure(heading, f"λ = {setting.lambda_recency:.3g}", note)


def _budgets(result: TuneResult) -> str:
    tiers = zip(("device", "host", "disk"), result.budgets_bytes, strict=True)
    return ", ".join(f"{gib(size_bytes)} {tier}" for tier, size_bytes in tiers if size_bytes)


def _link(bytes_per_s: float, latency_s: float) -> str:
    return f"{number(bytes_per_s / GB, 1)} GB/s after {latency_s * 1e6:.3g} µs"
