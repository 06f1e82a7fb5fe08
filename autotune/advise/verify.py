"""Whether a policy keeps its promise: simulate it again beside LRU, with nothing but what the document says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.advise.requests import bundled_trace, differences, missing_trace
from autotune.core.errors import PolicyError, SimulationError
from autotune.core.policy import Expectation, PolicyDocument, Provenance
from autotune.core.trace import Trace
from autotune.sim.from_policy import judged_runs
from autotune.sim.result import Totals

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the promise.

    Attributes:
        name: ``cost_baseline_s``, ``cost_policy_s``, ``net_seconds_saved_baseline``, ``net_seconds_saved_policy`` or
            ``gain_frac``, as in section ``expectation``.
        promised: What the document says.
        measured: What came out now.
        agrees: Whether they are equal within 1e-9.
    """

    name: str
    promised: float
    measured: float
    agrees: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """A promise and what became of it.

    Attributes:
        holds: On the requests that the policy was judged on, whether every figure agrees; on others, whether the gain
            reaches the lower bound that was promised.
        same_requests: Whether these are the requests that the policy was judged on.
        differences: In what they differ, one sentence each.
        figures: The figures of the promise.
        gain_frac: Share of LRU's cost saved now.
        gain_low_frac: Lower bound that was promised.
        gain_high_frac: Upper bound that was promised.
        confidence: Confidence of the bounds.
        requests: Requests that were counted.
        trace_format: Reader of the trace.
        trace_files: Names of its files.
        trace_sha256: Hash over its content.
    """

    holds: bool
    same_requests: bool
    differences: tuple[str, ...]
    figures: tuple[Figure, ...]
    gain_frac: float
    gain_low_frac: float
    gain_high_frac: float
    confidence: float
    requests: int
    trace_format: str
    trace_files: tuple[str, ...]
    trace_sha256: str


def verify(document: PolicyDocument, trace: Trace | None = None) -> Verification:
    """Simulate a policy and LRU again and compare with the promise.

    Capacities, modes and costs are those of the document; models and hardware profiles are not looked at.

    Args:
        document: The policy.
        trace: Requests to verify on; the bundled sample that the policy was judged on if not given.

    Raises:
        PolicyError: the document promises nothing, or does not say where the promise came from.
        TraceError: the requests are not at hand, or carry no blocks.
        SimulationError: there is nothing to count in them.
    """
    promise, provenance = _sections(document)
    if trace is None:
        trace = bundled_trace(provenance)
    if trace is None:
        raise missing_trace(provenance)
    trace.require_blocks()
    baseline, policy = _simulate(document, provenance, trace)
    differs = differences(provenance, document.fingerprint.trace_block_tokens, trace)
    figures = _figures(promise, baseline, policy)
    gain_frac = figures[-1].measured
    holds = gain_frac >= promise.gain_frac.low - TOLERANCE if differs else all(figure.agrees for figure in figures)
    return Verification(
        holds=holds,
        same_requests=not differs,
        differences=differs,
        figures=figures,
        gain_frac=gain_frac,
        gain_low_frac=promise.gain_frac.low,
        gain_high_frac=promise.gain_frac.high,
        confidence=promise.confidence,
        requests=policy.requests,
        trace_format=trace.provenance.trace_format,
        trace_files=trace.provenance.paths,
        trace_sha256=trace.provenance.sha256,
    )


def _sections(document: PolicyDocument) -> tuple[Expectation, Provenance]:
    if document.expectation is None or document.provenance is None:
        missing = [name for name in ("expectation", "provenance") if getattr(document, name) is None]
        raise PolicyError(
            "verifying needs a policy with the sections 'expectation' and 'provenance'",
            got=f"none of {' and '.join(missing)}",
            remedy="tune again: 'kv-autotune tune' writes both",
        )
    return document.expectation, document.provenance


def _simulate(document: PolicyDocument, provenance: Provenance, trace: Trace) -> tuple[Totals, Totals]:
    """LRU and the policy on what comes after the share of the time that only warms the caches up."""
    start = 0
    if trace.n_requests:
        from_s = trace.span_s * provenance.simulation.measure_from_frac
        start = trace.first_request_at(trace.arrival_s[0] + from_s)
    if start >= trace.n_requests:
        raise SimulationError("verifying needs requests to count", got="none", remedy="give a longer trace")
    baseline, policy = judged_runs(document, provenance, trace, document.costs.profile())
    return baseline.totals(start), policy.totals(start)


def _figures(promise: Expectation, baseline: Totals, policy: Totals) -> tuple[Figure, ...]:
    """Figures of the promise beside what was measured, the gain last."""
    gain_frac = 1.0 - policy.cost_s / baseline.cost_s if baseline.cost_s > 0.0 else 0.0
    scale_s = promise.cost_baseline_s
    rows = (
        ("cost_baseline_s", promise.cost_baseline_s, baseline.cost_s, 0.0),
        ("cost_policy_s", promise.cost_policy_s, policy.cost_s, 0.0),
        # Differences of large sums: as exact as those sums, not as their difference.
        ("net_seconds_saved_baseline", promise.net_seconds_saved_baseline, baseline.net_seconds_saved, scale_s),
        ("net_seconds_saved_policy", promise.net_seconds_saved_policy, policy.net_seconds_saved, scale_s),
        ("gain_frac", promise.gain_frac.value, gain_frac, 1.0),
    )
    return tuple(
        Figure(name, promised, measured, _equal(promised, measured, scale)) for name, promised, measured, scale in rows
    )


def _equal(promised: float, measured: float, scale: float) -> bool:
    return math.isclose(measured, promised, rel_tol=TOLERANCE, abs_tol=TOLERANCE * scale)
