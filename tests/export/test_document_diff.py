"""What changed between two documents."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from autotune.core.policy import PolicyDocument, Streaming
from autotune.export import Change, diff
from autotune.export.diff import summary
from autotune.testing.documents import example_document, example_learned_document, policy_documents

DOCUMENT = example_document()


def test_changed_value_is_named() -> None:
    """One changed knob is one change with its path and both values."""
    knobs = DOCUMENT.rank.host
    assert knobs is not None
    section = DOCUMENT.rank.model_copy(update={"host": knobs.model_copy(update={"lambda_recency": 0.5})})
    changes = diff(DOCUMENT, DOCUMENT.model_copy(update={"rank": section}))
    assert changes == [Change("rank.host.lambda_recency", 0.25, 0.5)]
    assert str(changes[0]) == "rank.host.lambda_recency: 0.25 -> 0.5"


def test_new_section_is_listed_value_by_value() -> None:
    """A section that only one document has is listed with null on the other side."""
    streaming = Streaming(resident_frac=0.5, prefetch_depth=1)
    assert diff(DOCUMENT, DOCUMENT.model_copy(update={"streaming": streaming})) == [
        Change("streaming.resident_frac", None, 0.5),
        Change("streaming.prefetch_depth", None, 1),
        Change("streaming.placement", None, "even"),
    ]


def test_tables_of_a_learned_rule_are_one_line_of_a_summary() -> None:
    """Knobs are told value by value, and what a model consists of by how many values differ."""
    before = example_learned_document()
    section = before.class_hazard
    halved = tuple(tuple(0.5 * hazard for hazard in row) for row in section.hazard_per_s)
    changed = section.model_copy(update={"rerank_s": 7.0, "hazard_per_s": halved})
    changes = diff(before, before.model_copy(update={"class_hazard": changed}))
    first, last = summary(changes)
    assert first.startswith("class_hazard.rerank_s: ") and first.endswith(" -> 7.0")
    assert last == f"class_hazard: {len(changes) - 1} values of the model's tables"
    assert summary([]) == []


def test_list_entries_are_numbered() -> None:
    """An entry of a list is named by its position."""
    steps = (DOCUMENT.prices.reuse[0], DOCUMENT.prices.reuse[1].model_copy(update={"probability": 0.75}))
    prices = DOCUMENT.prices.model_copy(update={"reuse": steps})
    changes = diff(DOCUMENT, DOCUMENT.model_copy(update={"prices": prices}))
    assert changes == [Change("prices.reuse[1].probability", 0.5, 0.75)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(policy_documents(), policy_documents())
def test_diff_is_empty_exactly_for_equal_documents(first: PolicyDocument, second: PolicyDocument) -> None:
    """Equal documents have no changes, others have some, and the other way round swaps both sides."""
    assert diff(first, first) == []
    changes = diff(first, second)
    assert bool(changes) == (first != second)
    swapped = {Change(change.path, change.after, change.before) for change in diff(second, first)}
    assert swapped == set(changes)
