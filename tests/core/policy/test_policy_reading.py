"""Reading policy documents: valid ones load, and everything else is one line that names the field."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import PolicyError
from autotune.core.policy import LruDocument, RankDocument, document_hash, load, parse
from autotune.core.strict_yaml import decode
from autotune.core.types import Admission, StoreMode, Tier, Timing

POLICIES = Path(__file__).parents[2] / "data/policies"
LRU_TEXT = (POLICIES / "v1_lru.yaml").read_text(encoding="utf-8")
RANK_TEXT = (POLICIES / "v1_rank.yaml").read_text(encoding="utf-8")


def changed(path: str, value: object, text: str = RANK_TEXT) -> str:
    """A document with one value replaced, added, or (``...``) taken out; path parts are keys or list positions."""
    tree: Any = yaml.safe_load(text)
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    node = tree
    for part in parents:
        node = node[part]
    if value is ...:
        del node[last]
    else:
        node[last] = copy.deepcopy(value)
    return str(yaml.safe_dump(tree, sort_keys=False))


def test_hand_written_lru_document_loads() -> None:
    """A minimal document of version 1 loads, and what it leaves out has its default."""
    document = load(POLICIES / "v1_lru.yaml")
    assert isinstance(document, LruDocument)
    assert document.budgets.of(Tier.DEVICE) == 2**30
    assert document.tiers.host is None
    assert document.rank is None
    assert document.lease is None
    assert "previous" in document.rollback


def test_hand_written_rank_document_loads() -> None:
    """Every section of version 1 arrives where it belongs, with the right types."""
    document = load(POLICIES / "v1_rank.yaml")
    assert isinstance(document, RankDocument)
    assert document.tiers.host is not None
    assert document.tiers.host.store_mode is StoreMode.LAZY
    assert document.tiers.host.admission is Admission.MARGINAL
    assert document.tiers.host.min_load_tokens == 256
    knobs = document.rank.of(Tier.HOST)
    assert knobs is not None
    assert (knobs.tau_s, knobs.half_life_s, knobs.weight_ns) == (600.0, 1200.0, 600e9)
    assert document.costs.profile().store_exposed_frac == 0.25
    assert [document.prices.reuse_probability(f) for f in (0.5, 1.0, 1.9, 2.0, 50.0)] == [None, 0.25, 0.25, 0.5, 0.5]
    assert document.provenance is not None
    assert document.provenance.simulation.timing is Timing.SERVICE
    assert document.lease is not None
    assert document.lease.expires_at == datetime(2026, 1, 31, 11, tzinfo=UTC)
    assert isinstance(document.lease.fallback, LruDocument)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", "kv-autotune/policy/v2", "schema must be 'kv-autotune/policy/v1'; got 'kv-autotune/policy/v2'"),
        ("schema", ..., "schema must be 'kv-autotune/policy/v1'; got None"),
        ("min_reader", 3, "this reader is version 2; got min_reader 3; install a newer kv-autotune"),
        ("min_reader", True, "min_reader must be a whole number"),
        ("kind", "class_hazard", "min_reader must be at least 2; got 1"),
        ("kind", "ranc", "kind must be one that this reader knows; got 'ranc'; did you mean 'rank'"),
        ("kind", ..., "kind must be one that this reader knows; got None"),
        ("kind", ["rank"], "kind must be one that this reader knows"),
        ("kind", "lru", "kind 'lru' has no section 'rank'; got one; use kind 'rank'"),
        ("budget", {}, "budget is not a known name; got {}; did you mean 'budgets'"),
        ("rank.host.lamda_recency", 1, "rank.host.lamda_recency is not a known name; got 1; did you mean 'lambda_rec"),
        ("rank.host.lambda_recency", 0, "rank.host.lambda_recency must be greater than 0.0; got 0"),
        ("rank.host.lambda_recency", 1.01, "rank.host.lambda_recency must be at most 1.0"),
        ("rank.host.lambda_recency", ..., "rank.host.lambda_recency must be given"),
        ("rank.host.turnover_s", float("nan"), "numbers must be finite"),
        ("rank.host.turnover_s", float("inf"), "numbers must be finite"),
        ("rank.host.turnover_s", 0, "rank.host.turnover_s must be greater than 0.0"),
        ("rank.host.half_life_turnovers", -1, "rank.host.half_life_turnovers must be at least 0.0"),
        ("rank.host.ghost_ratio", "8", "rank.host.ghost_ratio must be a number; got '8'"),
        ("rank.host", None, "tiers.host.policy is 'rank' exactly where rank.host has knobs"),
        ("rank", ..., "rank must be given"),
        ("tiers.host.policy", "lru", "admission 'marginal' compares ranks"),
        ("tiers.host.policy", "fifo", "tiers.host.policy must be one of 'lru', 'rank' or 'class_hazard'"),
        ("tiers.host.store_mode", "eagerly", "tiers.host.store_mode must be one of 'eager', 'lazy' or 'exclusive'"),
        ("tiers.device.store_mode", "lazy", "tiers.device.store_mode is not a known name"),
        ("tiers.host.min_load_tokens", 1.5, "tiers.host.min_load_tokens must be a whole number"),
        ("tiers.disk", None, "tiers.disk and budgets.disk_bytes must agree"),
        ("budgets.disk_bytes", 0, "tiers.disk and budgets.disk_bytes must agree"),
        ("budgets.device_bytes", 0, "budgets.device_bytes must be greater than 0"),
        ("budgets.device_bytes", 10**30, "budgets.device_bytes must be at most"),
        ("costs.kv_bytes_per_token", 4, "costs.kv_bytes_per_token must equal fingerprint.kv_bytes_per_token"),
        ("costs.load_bytes_per_s", 0, "costs.load_bytes_per_s must be greater than 0.0"),
        ("costs.store_exposed_frac", 1.5, "costs.store_exposed_frac must be at most 1.0"),
        ("prices.reuse.1.frequency_min", 1, "prices.reuse must have ascending frequency_min"),
        ("prices.reuse.0.probability", 2, "prices.reuse[0].probability must be at most 1.0"),
        ("prices.reuse.0.probabilty", 0.5, "prices.reuse[0].probabilty is not a known name"),
        ("prices.host_s_per_byte", -1e-9, "prices.host_s_per_byte must be at least 0.0"),
        ("fingerprint.engines", "vllm", "fingerprint.engines must be a list"),
        ("fingerprint.engines", ["vllm >= 0.24"], "fingerprint.engines[0]"),
        ("fingerprint.adapter_rule", "some", "fingerprint.adapter_rule must be one of 'any' or 'base_only'"),
        ("streaming.resident_frac", 1.5, "streaming.resident_frac must be at most 1.0"),
        ("hints.use_session", "yes", "hints.use_session must be true or false"),
        ("hints.use_tenant", True, "hints.use_tenant is not a known name"),
        ("expectation.gain_frac.low", 0.5, "the lower bound of a gain must not be above the upper one"),
        ("expectation.confidence", 1, "expectation.confidence must be less than 1.0"),
        ("provenance.created_at", "today", "provenance.created_at is not a known name"),
        ("lease.expires_at", "2026-01-31T12:00:00", "lease.expires_at"),
        ("lease.expires_at", "soon", "lease.expires_at"),
        ("lease.renew_s", 0, "lease.renew_s must be greater than 0.0"),
        ("lease.fallback.kind", "class_hazart", "lease.fallback must have as 'kind' one of 'lru', 'rank', 'class_haz"),
        ("lease.fallback.kind", "rank", "lease.fallback.rank must be given"),
        ("lease.fallback.schema", ..., "lease.fallback schema must be given"),
        ("lease.fallback.budgets.host_byte", 1, "lease.fallback.budgets.host_byte is not a known name"),
        ("lease.fallback.min_reader", 3, "this reader is version 2; got min_reader 3"),
    ],
)
def test_faults_name_the_field(path: str, value: object, message: str) -> None:
    """One changed value gives one line with the path, the rule, what came and, for names, the nearest valid one."""
    with pytest.raises(PolicyError) as caught:
        parse(changed(path, value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fallback_of_a_lease_has_no_lease() -> None:
    """A chain of leases would never reach a confirmed policy, so it is refused."""
    inner = yaml.safe_load(RANK_TEXT)["lease"]
    with pytest.raises(PolicyError, match=r"lease\.fallback must be a policy without a lease"):
        parse(changed("lease.fallback.lease", inner))


def test_document_over_a_mebibyte_is_refused_unread() -> None:
    """Size is checked first: a huge document is refused whatever it holds."""
    with pytest.raises(PolicyError, match="at most 1048576 bytes"):
        parse("#" * (2**20 + 1))
    assert parse(LRU_TEXT + "#" * (2**20 - len(LRU_TEXT))) == parse(LRU_TEXT)


def test_alias_bomb_is_refused_at_its_first_anchor() -> None:
    """The classical bomb of nested aliases is refused at line 1."""
    with pytest.raises(PolicyError, match="line 1: anchors and aliases"):
        parse("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n")


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    """Both a missing file and a faulty one are named in the message."""
    with pytest.raises(PolicyError, match=r"none\.yaml must be a readable file"):
        load(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("kind: lru", encoding="utf-8")
    with pytest.raises(PolicyError, match=r"bad\.yaml: schema must be"):
        load(tmp_path / "bad.yaml")


def test_hash_is_of_values() -> None:
    """Comments and layout leave the hash alone; any changed value changes it."""
    document = parse(LRU_TEXT)
    assert document_hash(parse("# a comment\n" + LRU_TEXT.replace("5.0e+10", "50000000000"))) == document_hash(document)
    assert document_hash(parse(LRU_TEXT.replace("by hand", "by foot"))) != document_hash(document)
    assert len(document_hash(document)) == 64


def test_documents_are_frozen() -> None:
    """A document cannot be changed after it was checked."""
    with pytest.raises(ValueError, match="frozen"):
        parse(LRU_TEXT).rollback = "no"


@given(st.text())
def test_arbitrary_text_is_refused_politely(text: str) -> None:
    """No text makes the reader raise anything but PolicyError."""
    with pytest.raises(PolicyError):
        parse(text)


@given(st.binary())
def test_arbitrary_bytes_are_refused_politely(data: bytes) -> None:
    """No file content makes the reader raise anything but PolicyError."""
    with pytest.raises(PolicyError):
        parse(decode(data, PolicyError))


_SCALARS: st.SearchStrategy[object] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({})
)


def _paths(tree: Any, prefix: str = "") -> list[str]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [prefix, *(path for key, child in children for path in _paths(child, f"{prefix}.{key}".lstrip(".")))]


@given(st.sampled_from(_paths(yaml.safe_load(RANK_TEXT))[1:]), _SCALARS)
def test_any_replaced_value_is_read_or_refused(path: str, value: object) -> None:
    """Whatever stands in place of any value of a valid document, the reader accepts it or raises PolicyError."""
    try:
        parse(changed(path, value))
    except PolicyError as error:
        assert "\n" not in str(error)


@pytest.mark.fuzz
@given(st.data())
def test_mutated_documents_never_crash_the_reader(data: st.DataObject) -> None:
    """Documents with characters cut out, doubled and replaced are read or refused, never anything else."""
    text = RANK_TEXT
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 40)))
        text = text[:start] + data.draw(st.text(max_size=8) | st.just(text[start:stop] * 2)) + text[stop:]
    try:
        parse(text)
    except PolicyError as error:
        assert "\n" not in str(error)
