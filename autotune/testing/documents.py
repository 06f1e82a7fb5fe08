"""Valid policy documents, one ordinary and arbitrary ones, for tests of whatever reads or writes them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from autotune.core import policy
from autotune.core.policy.document import KINDS
from autotune.core.types import Admission, EngineSemantics, RankForm, StoreMode, Timing
from autotune.core.units import GIB
from autotune.testing.reuse import example_reuse_model, reuse_models

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_NAME = _TEXT.filter(bool)
_SECONDS = st.floats(0.0, 1e9)
_FRAC = st.floats(0.0, 1.0)
_COUNT = st.integers(0, 2**60)
_BYTES = st.integers(1, 2**60)
_RATE = st.floats(1e-3, 1e18)
_WRITE_BUDGETS = st.builds(policy.WriteBudget, bytes_per_s=_RATE, burst_s=st.floats(0.0, 1e9))
_ENGINES = st.sampled_from(["vllm", "vllm>=0.24,<0.34", "sglang==0.5.10.post1", "lmcache!=0.5"])


def example_document() -> policy.RankDocument:
    """An ordinary document: LRU on the device, the rank rule on the host, for an 8B model on one H100."""
    return policy.RankDocument(
        fingerprint=policy.Fingerprint(
            model="llama-3.1-8b",
            kv_dtype="bfloat16",
            kv_bytes_per_token=131_072,
            trace_block_tokens=512,
            engines=("vllm>=0.24,<0.34",),
        ),
        budgets=policy.Budgets(device_bytes=40 * GIB, host_bytes=160 * GIB),
        tiers=policy.Tiers(
            device=policy.DeviceTier(),
            host=policy.StoredTier(policy="rank", admission=Admission.MARGINAL),
        ),
        rank=policy.RankSection(
            host=policy.RankKnobs(lambda_recency=0.25, tau_turnovers=2.0, turnover_s=300.0, cost_weight=0.5)
        ),
        costs=policy.Costs(
            prefill_linear_s_per_token=4.015e-05,
            prefill_quadratic_s_per_token_pair=1.31072e-09,
            kv_bytes_per_token=131_072,
            load_bytes_per_s=5e10,
            load_latency_s=2e-05,
            store_bytes_per_s=5e10,
            store_latency_s=2e-05,
            disk_bytes_per_s=5e9,
            disk_latency_s=1e-04,
            store_exposed_frac=0.0,
            source="an example",
        ),
        prices=policy.Prices(
            device_s_per_byte=3e-10,
            host_s_per_byte=1e-10,
            reuse=(
                policy.ReuseStep(frequency_min=1.0, probability=0.25, n_samples=4000),
                policy.ReuseStep(frequency_min=2.0, probability=0.5, n_samples=1000),
            ),
        ),
    )


def example_learned_document() -> policy.ClassHazardDocument:
    """The ordinary document with a small learned policy on both tiers."""
    given = example_document()
    learned = {"policy": "class_hazard", "admission": Admission.MARGINAL}
    return policy.ClassHazardDocument(
        fingerprint=given.fingerprint,
        budgets=given.budgets,
        tiers=policy.Tiers(
            device=policy.DeviceTier(policy="class_hazard"),
            host=policy.StoredTier.model_validate({**learned, "store_mode": StoreMode.LAZY}),
        ),
        costs=given.costs,
        prices=given.prices,
        class_hazard=policy.ClassHazardSection.of(example_reuse_model(), device_age_s=12.0, rerank_s=5.0),
    )


def example_priced_document() -> policy.ClassHazardDocument:
    """The small learned policy with prices of its ranks: the device's next to leave is worth twice the host's."""
    given = example_learned_document()
    prices = policy.RankPrices(device_s_per_block_s=4e-4, host_s_per_block_s=2e-4, moments=64, measured_on="an example")
    section = given.class_hazard.model_copy(update={"prices": prices})
    return given.model_copy(update={"class_hazard": section})


def example_fixed_key_document() -> policy.ClassHazardDocument:
    """The small learned policy with keys that stay, which the next to leave has from ten minutes and an hour ago."""
    given = example_learned_document()
    prices = policy.RankPrices(device_key_s=-600.0, host_key_s=-3600.0, moments=64, measured_on="an example")
    fixed = {"form": RankForm.FIXED_KEY, "rerank_s": None, "copy_factor": 0.5, "prices": prices}
    return given.model_copy(update={"class_hazard": given.class_hazard.model_copy(update=fixed)})


def example_budgeted_document() -> policy.ClassHazardDocument:
    """The small learned policy with a write budget of 2 GB/s, of which a minute may be saved up."""
    given = example_learned_document()
    budget = policy.WriteBudget(bytes_per_s=2e9, burst_s=60.0)
    return given.model_copy(update={"budgets": given.budgets.model_copy(update={"host_write": budget})})


def policy_documents(kinds: Sequence[str] = KINDS) -> st.SearchStrategy[policy.PolicyDocument]:
    """Documents of these kinds, with and without their optional sections, and leases around some of them."""
    return st.one_of(_confirmed(kinds), st.builds(_with_lease, _confirmed(kinds), _leases(kinds)))


_Confirmed = policy.LruDocument | policy.RankDocument | policy.ClassHazardDocument


def _confirmed(kinds: Sequence[str]) -> st.SearchStrategy[_Confirmed]:
    return st.one_of([_documents(kind) for kind in kinds])


def _leases(kinds: Sequence[str]) -> st.SearchStrategy[policy.Lease]:
    return st.builds(
        policy.Lease,
        expires_at=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
        renew_s=st.floats(1e-3, 1e9),
        fallback=_confirmed(kinds),
    )


def _with_lease(document: policy.PolicyDocument, lease: policy.Lease) -> policy.PolicyDocument:
    return document.model_copy(update={"lease": lease})


@st.composite
def _documents(draw: st.DrawFn, kind: str) -> _Confirmed:
    """A document without a lease."""
    bytes_per_token = draw(_BYTES)
    deepest = {"lru": -1, "class_hazard": 1, "rank": 2}[kind]
    ranked_tiers = draw(st.sets(st.integers(0, deepest), min_size=1)) if deepest >= 0 else set()
    has_host, has_disk = (tier in ranked_tiers or draw(st.booleans()) for tier in (1, 2))
    sections = {
        "fingerprint": draw(_fingerprints(bytes_per_token)),
        "budgets": policy.Budgets(
            device_bytes=draw(_BYTES),
            host_bytes=draw(_BYTES) if has_host else 0,
            disk_bytes=draw(_BYTES) if has_disk else 0,
            host_write=draw(st.none() | _WRITE_BUDGETS) if kind == "class_hazard" and 1 in ranked_tiers else None,
        ),
        "tiers": policy.Tiers(
            device=draw(_device_tiers(kind if 0 in ranked_tiers else "lru")),
            host=draw(_stored_tiers(kind if 1 in ranked_tiers else "lru")) if has_host else None,
            disk=draw(_stored_tiers(kind if 2 in ranked_tiers else "lru")) if has_disk else None,
        ),
        "costs": draw(_costs(bytes_per_token)),
        "prices": draw(_prices()),
        "streaming": draw(st.none() | _streaming()),
        "hints": draw(st.none() | st.builds(policy.Hints, use_session=st.booleans(), use_priority=st.booleans())),
        "expectation": draw(st.none() | _expectations()),
        "provenance": draw(st.none() | _provenances()),
        "rollback": draw(_TEXT),
    }
    if kind == "lru":
        return policy.LruDocument.model_validate(sections)
    if kind == "class_hazard":
        return policy.ClassHazardDocument.model_validate(
            {**sections, "class_hazard": draw(_learned_sections(ranked_tiers))}
        )
    knobs = {name: draw(_knobs()) for tier, name in enumerate(("device", "host", "disk")) if tier in ranked_tiers}
    return policy.RankDocument.model_validate({**sections, "rank": policy.RankSection(**knobs)})


def _device_tiers(rule: str) -> st.SearchStrategy[policy.DeviceTier]:
    return st.builds(policy.DeviceTier, policy=st.just(rule), admission=_admissions(rule))


def _stored_tiers(rule: str) -> st.SearchStrategy[policy.StoredTier]:
    return st.builds(
        policy.StoredTier,
        policy=st.just(rule),
        admission=_admissions(rule),
        store_mode=st.sampled_from(list(StoreMode)),
        min_load_tokens=st.integers(0, 2**31),
        chunk_tokens=st.integers(0, 2**31),
    )


def _admissions(rule: str) -> st.SearchStrategy[Admission]:
    return st.sampled_from([Admission.ALL, Admission.TWO_HIT] if rule == "lru" else list(Admission))


def _learned_sections(tiers: Set[int]) -> st.SearchStrategy[policy.ClassHazardSection]:
    ranks, keys = (
        st.none()
        | st.builds(
            policy.RankPrices,
            moments=st.integers(1, 2**31),
            measured_on=_TEXT,
            **{f"{name}_{unit}": values for tier, name in enumerate(("device", "host")) if tier in tiers},
        )
        for unit, values in (("s_per_block_s", _SECONDS), ("key_s", st.floats(-1e9, 1e9)))
    )
    common: dict[str, Any] = {
        "device_age_s": _SECONDS,
        "copy_factor": _FRAC,
        "history_tokens": st.integers(0, 2**31),
    }
    of, models = policy.ClassHazardSection.of, reuse_models()
    by_tick = st.builds(of, models, rerank_s=st.floats(1e-3, 1e9), prices=ranks, **common)
    return by_tick | st.builds(of, models, rerank_s=st.none(), form=st.just(RankForm.FIXED_KEY), prices=keys, **common)


def _knobs() -> st.SearchStrategy[policy.RankKnobs]:
    return st.builds(
        policy.RankKnobs,
        lambda_recency=st.floats(1e-6, 1.0),
        tau_turnovers=st.floats(1e-6, 1e6),
        turnover_s=st.floats(1e-6, 1e9),
        half_life_turnovers=st.floats(0.0, 1e6),
        cost_weight=st.floats(0.0, 100.0),
        ghost_ratio=st.floats(0.0, 1000.0),
    )


def _fingerprints(bytes_per_token: int) -> st.SearchStrategy[policy.Fingerprint]:
    return st.builds(
        policy.Fingerprint,
        model=_NAME,
        kv_dtype=_NAME,
        kv_bytes_per_token=st.just(bytes_per_token),
        trace_block_tokens=st.integers(1, 2**31),
        engines=st.lists(_ENGINES, max_size=3).map(tuple),
        adapter_rule=st.sampled_from(["any", "base_only"]),
    )


def _costs(bytes_per_token: int) -> st.SearchStrategy[policy.Costs]:
    return st.builds(
        policy.Costs,
        prefill_linear_s_per_token=st.floats(1e-12, 1.0),
        prefill_quadratic_s_per_token_pair=_FRAC,
        kv_bytes_per_token=st.just(bytes_per_token),
        load_bytes_per_s=_RATE,
        load_latency_s=_SECONDS,
        store_bytes_per_s=_RATE,
        store_latency_s=_SECONDS,
        disk_bytes_per_s=_RATE,
        disk_latency_s=_SECONDS,
        store_exposed_frac=_FRAC,
        source=_TEXT,
    )


def _prices() -> st.SearchStrategy[policy.Prices]:
    step = st.tuples(st.floats(0.0, 1e9), _FRAC, _COUNT)
    table = st.lists(step, max_size=4, unique_by=lambda values: values[0]).map(
        lambda rows: tuple(
            policy.ReuseStep(frequency_min=start, probability=share, n_samples=count)
            for start, share, count in sorted(rows)
        )
    )
    price = st.none() | _SECONDS
    return st.builds(policy.Prices, device_s_per_byte=price, host_s_per_byte=price, reuse=table)


def _streaming() -> st.SearchStrategy[policy.Streaming]:
    return st.builds(policy.Streaming, resident_frac=_FRAC, prefetch_depth=st.integers(0, 4096))


def _expectations() -> st.SearchStrategy[policy.Expectation]:
    gains = st.tuples(st.floats(-1e6, 1.0), st.floats(-1e6, 1.0), st.floats(-1e6, 1.0)).map(
        lambda three: policy.GainFrac(value=three[0], low=min(three[1:]), high=max(three[1:]))
    )
    return st.builds(
        policy.Expectation,
        cost_baseline_s=_SECONDS,
        cost_policy_s=_SECONDS,
        gain_frac=gains,
        confidence=st.floats(0.01, 0.99),
        net_seconds_saved_baseline=st.floats(-1e15, 1e15),
        net_seconds_saved_policy=st.floats(-1e15, 1e15),
        gap_closed_frac=st.none() | st.floats(-1e6, 1e6),
        measured_on=_TEXT,
    )


def _provenances() -> st.SearchStrategy[policy.Provenance]:
    trace = st.builds(
        policy.TraceSource,
        format=_NAME,
        paths=st.lists(_TEXT, max_size=3).map(tuple),
        sha256=st.text("0123456789abcdef", max_size=64),
        options=st.lists(st.builds(policy.TraceOption, name=_NAME, value=_TEXT), max_size=2).map(tuple),
        skipped_rows=st.lists(st.builds(policy.SkippedRows, fault=_NAME, rows=_COUNT), max_size=2).map(tuple),
        n_requests=_COUNT,
    )
    simulation = st.builds(
        policy.SimulationFacts,
        timing=st.sampled_from(list(Timing)),
        full_blocks=st.booleans(),
        engine=st.sampled_from(list(EngineSemantics)),
        device_blocks=_COUNT,
        host_blocks=_COUNT,
        disk_blocks=_COUNT,
        measure_from_frac=_FRAC,
        itl_s=_SECONDS,
        check_break_even=st.booleans(),
        prefetch_depth=st.integers(0, 2**31),
        servers=st.none() | _COUNT,
        time_scale=st.none() | st.floats(1e-6, 1e6),
        baseline_device_blocks=st.none() | _COUNT,
        baseline_store_mode=st.none() | st.sampled_from(list(StoreMode)),
        device_policy=st.none() | _NAME,
    )
    return st.builds(
        policy.Provenance,
        tool_version=_NAME,
        trace=trace,
        packages=st.lists(st.builds(policy.Package, name=_NAME, version=_NAME), max_size=2).map(tuple),
        seed=st.integers(0, 2**63 - 1),
        sampler=_NAME,
        trials=_COUNT,
        train_frac=_FRAC,
        simulation=simulation,
    )
