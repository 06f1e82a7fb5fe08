"""What holds for the settings of every engine."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from export_documents import DISK, document, export, notes
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from autotune.core import registry
from autotune.core.errors import AutotuneError, ConfigError
from autotune.core.policy import Lease, PolicyDocument, RankDocument
from autotune.core.types import StoreMode
from autotune.export import Flavor
from autotune.testing.documents import (
    example_budgeted_document,
    example_document,
    example_learned_document,
    policy_documents,
)

ENGINES = registry.names(registry.RENDERERS)
WITH_PLUGIN = {"vllm", "transformers"}
OFFLINE = {"transformers", "flexgen", "deepspeed"}  # told about running requests, not about idle blocks
WRITING_THROUGH = ("vllm-size", "vllm-ascend", "sglang", "lmcache", "lmcache-mp", "dynamo")


def suitable(**changes: object) -> PolicyDocument:
    """A policy that every engine can be told about."""
    return document(streaming=(0.0, 1), **changes)  # type: ignore[arg-type]


def test_every_engine_has_a_renderer() -> None:
    """The registered names are those of the documentation."""
    assert set(ENGINES) == {
        "deepspeed",
        "dynamo",
        "flexgen",
        "lmcache",
        "lmcache-mp",
        "sglang",
        "tensorrt-llm",
        "transformers",
        "vllm",
        "vllm-ascend",
        "vllm-size",
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_notes_say_versions_ranks_and_what_needs_a_restart(engine: str) -> None:
    """Every engine's notes name its versions, what the sizes count, and what may or may not change live."""
    text = notes(engine, suitable())
    assert "\nfor " in f"\n{text}"
    assert any(word in text for word in ("per rank", "over all ranks", "over the ranks", "one process", "per process"))
    assert "restart needed" in text or "live:" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_notes_say_what_is_not_expressed(engine: str) -> None:
    """A rule that the stock engine cannot follow is named."""
    ranked = example_document().model_copy(update={"streaming": suitable().streaming})
    flavor = None if engine == "transformers" else Flavor.STOCK
    assert "not expressed: " in notes(engine, ranked, flavor=flavor)


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - OFFLINE - {"tensorrt-llm"}))
def test_learned_rule_is_not_expressed(engine: str) -> None:
    """No engine decides by a learned model of its own, and each says so."""
    assert "not expressed: the learned rule" in notes(engine, example_learned_document(), flavor=Flavor.STOCK)


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - OFFLINE - {"tensorrt-llm"}))
def test_write_budget_is_not_expressed(engine: str) -> None:
    """No stock engine limits what it stores, and each says so where the policy does."""
    said = "not expressed: the write budget of 2 GB/s"
    assert said in notes(engine, example_budgeted_document(), flavor=Flavor.STOCK)
    assert said not in notes(engine, example_learned_document(), flavor=Flavor.STOCK)


@pytest.mark.parametrize("engine", ENGINES)
def test_trial_is_refused(engine: str) -> None:
    """An engine is not started with a policy that ends by itself."""
    lease = Lease(expires_at=datetime(2030, 1, 2, tzinfo=UTC), renew_s=60.0, fallback=document())
    with pytest.raises(ConfigError, match="started with a confirmed policy; got a trial that ends at 2030-01-02"):
        export(engine, suitable().model_copy(update={"lease": lease}))


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - WITH_PLUGIN))
def test_plugin_that_does_not_exist_is_refused(engine: str) -> None:
    """Asking for our plug-in where there is none is an error, and without a flavor the engine's own means are used."""
    with pytest.raises(ConfigError, match=r"no plug-in of kv-autotune for .*; got --flavor plugin; leave --flavor"):
        export(engine, suitable(), flavor=Flavor.PLUGIN)
    assert export(engine, suitable()).flavor is Flavor.STOCK


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - OFFLINE))
def test_policy_without_a_host_is_refused(engine: str) -> None:
    """There is nothing to say about a host tier that does not exist."""
    with pytest.raises(ConfigError, match=r"must have one; got budgets.host_bytes 0"):
        export(engine, document(host_gib=0), flavor=Flavor.STOCK)


@pytest.mark.parametrize("engine", sorted(OFFLINE))
def test_policy_without_streaming_is_refused(engine: str) -> None:
    """An engine that keeps no idle blocks needs to know what becomes of the running ones."""
    with pytest.raises(ConfigError, match=r"a policy without the section 'streaming'; add streaming.resident_frac"):
        export(engine, document())


@pytest.mark.parametrize("engine", [*WRITING_THROUGH, "vllm"])
@pytest.mark.parametrize("host_gib", [20, 40])
def test_host_tier_that_only_mirrors_is_refused(engine: str, host_gib: float) -> None:
    """Where everything is stored at once, a host tier that is not larger than the device's holds nothing else."""
    with pytest.raises(ConfigError, match=r"host tier must be larger than the device tier: .*mirrors it; got"):
        export(engine, document(host_gib=host_gib), flavor=Flavor.STOCK)


@pytest.mark.parametrize("engine", ["sglang", "vllm-ascend", "tensorrt-llm"])
def test_small_host_tier_is_useful_where_blocks_are_stored_at_eviction(engine: str) -> None:
    """In lazy mode the host holds what the device has dropped, whatever its size."""
    assert export(engine, document(host_gib=20, store_mode=StoreMode.LAZY)).text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("ranks", "batch_size"), [(0, 4), (-1, 4), (1, 0), (1, -3)])
def test_impossible_numbers_are_refused(engine: str, ranks: int, batch_size: int) -> None:
    """There is at least one rank, and at least one sequence in a batch."""
    with pytest.raises(ConfigError, match=r"has 1 to .*; got"):
        export(engine, suitable(), ranks=ranks, batch_size=batch_size)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_ways_to_a_host_tier_of_vllm_are_never_given_together(engine: str) -> None:
    """No text has both the short form and a connector."""
    text = export(engine, suitable()).text
    assert not ("kv-offloading-size" in text and ("kv-transfer-config" in text or "kv_connector" in text))


@pytest.mark.parametrize("engine", ["sglang", "lmcache", "lmcache-mp", "dynamo", "vllm"])
def test_disk_tier_needs_a_folder(engine: str) -> None:
    """Without a folder the disk tier is named as left out; with one it is in the text."""
    given = suitable(disk_gib=1000)
    assert "not expressed: the disk tier of 1,000 GiB" in notes(engine, given)
    text = export(engine, given, disk_dir=DISK).text
    assert str(DISK) in text
    assert "the disk tier of" not in notes(engine, given, disk_dir=DISK)
    if engine in {"sglang", "lmcache-mp"}:
        assert any(str(DISK) in word for word in shlex.split(text))


@hypothesis_settings(max_examples=60)
@given(policy_documents())
def test_every_policy_is_rendered_or_refused(given_document: PolicyDocument) -> None:
    """Any valid document gives a text and notes of one line each, or an error that says rule, got and remedy."""
    for engine in ENGINES:
        try:
            rendered = export(engine, given_document)
        except AutotuneError as error:
            assert error.rule
            assert error.got
            continue
        assert rendered.engine == engine
        assert rendered.text.strip()
        assert rendered.settings
        assert all(note and "\n" not in note for note in rendered.notes)


def test_policy_for_another_engine_says_so() -> None:
    """Sizes carry over to another engine; the note names the one that the policy was tuned for."""
    given: RankDocument = example_document()
    assert "the policy was tuned for vllm>=0.24,<0.34" in notes("sglang", given)


def test_page_has_a_row_for_every_engine() -> None:
    """The page on exports lists what is registered."""
    page = (Path(__file__).parents[2] / "docs/exporters.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z][a-z-]*)` \|", page, re.MULTILINE)) == set(ENGINES)
