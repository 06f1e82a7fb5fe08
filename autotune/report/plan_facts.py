"""A plan in headlines and tables, the same in the terminal and on the page."""

from __future__ import annotations

from typing import NamedTuple

from autotune.advise.plan import Plan
from autotune.core.units import GIB, MS_PER_S
from autotune.report.formats import ABSENT, duration, gib, number, with_percent

Row = tuple[str, ...]


class PlanTable(NamedTuple):
    """A table of a plan: its title, headings and rows of text."""

    title: str
    headings: Row
    rows: tuple[Row, ...]


def headline(plan: Plan) -> tuple[str, ...]:
    """What was planned, and whether it fits."""
    request = plan.request
    load = f"{request.concurrency:,} × {request.context_tokens:,} tokens"
    machine = plan.hardware if request.ranks == 1 else f"{request.ranks} × {plan.hardware}"
    per_token = f"{plan.growth_bytes_per_token:,.0f} bytes per token"
    if plan.kv_bytes_per_token is None:
        per_token += " in a long context"
    if plan.fixed_bytes_per_sequence:
        per_token += f", and states of {plan.fixed_bytes_per_sequence:,} bytes per sequence"
    missing = [fit for fit in plan.fits if not fit.fits]
    verdict = "Everything fits." if not missing else f"Does not fit: {missing[0].what}; {missing[0].remedy}."
    return (
        f"{plan.model} on {machine}, {load}, KV in {plan.kv_dtype}, p {request.resident_frac}",
        f"KV: {plan.kv_bytes:,} bytes ({gib(plan.kv_bytes)}, {plan.kv_bytes / 1e9:,.2f} GB); {per_token}",
        verdict,
    )


def plan_tables(plan: Plan) -> tuple[PlanTable, ...]:
    """All tables that have rows."""
    made = (_layers(plan), _memory(plan), _capacity(plan), _step(plan), _reload(plan), _waterfall(plan), _options(plan))
    return tuple(table for table in made if table.rows)


def _layers(plan: Plan) -> PlanTable:
    rows = tuple(
        (group.kind.value.replace("_", " "), f"{group.layers:,}", f"{group.kv_bytes:,}", f"{group.block_bytes:,}", "")
        for group in plan.groups
    )
    return PlanTable("KV of one sequence", ("layers", "how many", "bytes", "bytes per block", ""), rows)


def _memory(plan: Plan) -> PlanTable:
    memory = plan.memory
    rows = [
        ("weights", gib(memory.weights_bytes), "per device"),
        ("workspace", gib(memory.workspace_bytes), "per device, assumed"),
        ("KV that stays", gib(memory.resident_bytes), "per device, in whole blocks"),
        ("buffers", gib(memory.buffer_bytes), f"per device, {plan.request.prefetch_depth + 1} layers"),
        ("device peak", gib(memory.peak_bytes), f"of {gib(memory.usable_bytes)} that may be used"),
        ("pool for KV", gib(memory.pool_bytes), "what an engine allocates at its start"),
        ("host peak", gib(memory.host_bytes), f"{gib(memory.host_pinned_bytes)} as pinned memory"),
    ]
    rows += [
        (
            "✓ fits" if fit.fits else "✗ does not fit",
            gib(fit.needed_bytes),
            f"{fit.what}; there is {gib(fit.available_bytes)}",
        )
        for fit in plan.fits
    ]
    return PlanTable("Memory", ("", "size", ""), tuple(rows))


def _capacity(plan: Plan) -> PlanTable:
    rows = tuple(
        (
            capacity.resident_frac,
            "no limit" if capacity.sequences is None else f"{capacity.sequences:,}",
            "planned" if capacity.resident_frac == plan.request.resident_frac else "",
        )
        for capacity in plan.capacities
    )
    return PlanTable("Sequences that fit, by share p on the device", ("p", "sequences", ""), rows)


def _step(plan: Plan) -> PlanTable:
    step = plan.step
    if step is None:
        return PlanTable("", (), ())
    beta = "no overlap is enough" if step.beta_needed is None else f"{step.beta_needed:.2f}"
    rows = (
        ("computing", _ms(step.compute_s), "weights and KV read from device memory, or the arithmetic"),
        ("loading", _ms(step.transfer_s), "what does not stay on the device"),
        ("a step", _ms(step.step_s), "the longer of the two"),
        ("without overlap", _ms(step.step_without_overlap_s), "the sum of the two"),
        ("β needed", beta, f"for a step of {_ms(step.goal_s)}"),
        (
            "p that hides the link",
            f"{step.hiding_resident_frac:.3f}",
            "the smallest whose loads are not longer",
        ),
    )
    return PlanTable("One decode step", ("", "", ""), rows)


def _reload(plan: Plan) -> PlanTable:
    rows = tuple(
        (
            f"{point.run_tokens:,} tokens after {point.start_tokens:,}",
            duration(point.recompute_s),
            duration(point.reload_s),
            ABSENT if point.break_even_tokens is None else _tokens(point.break_even_tokens),
            f"{point.break_even_bytes_per_s / GIB:,.2f} GiB/s",
        )
        for point in plan.reload
    )
    headings = ("reload or recompute", "recompute", "reload", "loading pays from", "and above a link of")
    return PlanTable("Break-even", headings, rows)


def _waterfall(plan: Plan) -> PlanTable:
    rows = [("every head, layer and token", "", gib(plan.waterfall.start_bytes), "")]
    rows += [
        (step.technique.value, f"× {number(float(step.ratio), 4)}", gib(step.bytes_after), step.factor.value)
        for step in plan.waterfall.steps
    ]
    return PlanTable("Capacity by technique, multiplied out", ("technique", "ratio", "KV", "reduces"), tuple(rows))


def _options(plan: Plan) -> PlanTable:
    rows = tuple(
        (
            option.technique.value,
            option.setting,
            with_percent(option.kept_frac),
            with_percent(option.read_frac),
            ("same output; " if option.exact else "") + option.risk,
        )
        for option in plan.options
    )
    return PlanTable("What could still be switched on", ("technique", "with", "kept", "read per step", "risk"), rows)


def _tokens(n_tokens: int) -> str:
    return "1 token" if n_tokens == 1 else f"{n_tokens:,} tokens"


def _ms(time_s: float) -> str:
    return f"{time_s * MS_PER_S:,.2f} ms"
