"""The write budget of the host in a policy document: read back as written, refused where nothing keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from autotune.core.errors import PolicyError
from autotune.core.policy import WriteBudget, document_hash, explain, parse
from autotune.export import render
from autotune.testing.documents import example_budgeted_document, example_document, example_learned_document

DOCUMENT = example_budgeted_document()


def tree_of(**budget: Any) -> Any:
    """The document as plain values, with another write budget."""
    tree = yaml.safe_load(render(DOCUMENT))
    tree["budgets"]["host_write"] = {"bytes_per_s": 2e9, "burst_s": 60.0} | budget
    return tree


def test_a_budget_is_read_back_and_says_its_units() -> None:
    """The text has figures, units and what they mean; a document without a budget has no such key, and is read."""
    text = render(DOCUMENT)
    assert parse(text) == DOCUMENT
    assert parse(text).budgets.host_write == WriteBudget(bytes_per_s=2e9, burst_s=60.0)
    assert "    bytes_per_s: 2000000000.0  # 2 GB/s" in text
    words = " ".join(text.replace("#", "").split())
    assert "Seconds of that budget that may be saved up" in words
    plain = render(example_learned_document())
    assert "host_write" not in plain
    assert parse(plain).budgets.host_write is None


def test_documents_without_a_budget_keep_their_hash() -> None:
    """Sidecar and engine may be of different versions: both must mean the same policy by a hash."""
    assert "host_write" not in json.dumps(example_document().model_dump(mode="json"))
    assert document_hash(example_document()) == "32f58cb724739d1f4e850c579a8d306c1d0a21a801cab9eb7637e6a179925f13"
    assert document_hash(DOCUMENT) != document_hash(example_learned_document())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bytes_per_s": 0.0}, "budgets.host_write.bytes_per_s must be greater than 0"),
        ({"bytes_per_s": -1.0}, "budgets.host_write.bytes_per_s must be greater than 0"),
        ({"burst_s": -1.0}, "budgets.host_write.burst_s must be at least 0"),
        ({"burst_s": 1e10}, "budgets.host_write.burst_s must be at most"),
        ({"burst": 1.0}, "budgets.host_write.burst is not a known name"),
    ],
)
def test_figures_that_mean_nothing_are_refused(change: dict[str, object], message: str) -> None:
    """A budget allows something, and what may be saved up of it is bounded."""
    with pytest.raises(PolicyError, match=message):
        parse(yaml.safe_dump(tree_of(**change)))


def test_both_figures_are_needed() -> None:
    """How much may be saved up is not guessed."""
    tree = tree_of()
    del tree["budgets"]["host_write"]["burst_s"]
    with pytest.raises(PolicyError, match=r"budgets.host_write.burst_s must be given"):
        parse(yaml.safe_dump(tree))


def test_a_budget_that_no_rule_keeps_is_refused() -> None:
    """LRU and the rank rule store all that comes, so with them a budget would be an empty promise."""
    tree = tree_of()
    tree["tiers"]["host"] |= {"policy": "lru", "admission": "all"}
    with pytest.raises(PolicyError, match=r"host_write is kept by tiers.host.policy 'class_hazard'.*got policy 'lru'"):
        parse(yaml.safe_dump(tree))
    ranked = yaml.safe_load(render(example_document()))
    ranked["budgets"]["host_write"] = {"bytes_per_s": 2e9, "burst_s": 60.0}
    with pytest.raises(PolicyError, match="got policy 'rank'"):
        parse(yaml.safe_dump(ranked))


def test_explain_says_that_a_budget_holds() -> None:
    """What is left of it changes the decision too, and no explanation knows how much that is."""
    block: dict[str, Any] = {"depth_tokens": 8192, "frequency": 3.0, "age_s": 20.0, "size_tokens": 512}
    said = [each for each in explain(DOCUMENT, **block).assumptions if "write budget" in each]
    assert len(said) == 1
    assert "2 GB/s of which 60 s may be saved up" in said[0]
    plain = explain(example_learned_document(), **block).assumptions
    assert not any("write budget" in each for each in plain)
