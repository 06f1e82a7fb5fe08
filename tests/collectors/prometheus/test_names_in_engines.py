"""The names that the catalogues rest on stand in the engines' own sources."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from autotune_collectors.prometheus.catalogue import Catalogue, catalogues, version_number
from autotune_collectors.prometheus.names import base_name
from autotune_policies.engines.vllm.series import DEFINITIONS

ROOT = Path(__file__).parents[3]
VLLM = Path(os.environ.get("VLLM_SOURCES") or ROOT / ".vllm-sources")
PARSERS = Path(os.environ.get("ENGINE_PARSERS") or ROOT / ".venv-parsers")
# Gone before the oldest sources that are at hand; pages of the time have them.
OLD_VLLM = {
    "gpu_prefix_cache_hit_rate",
    "cpu_prefix_cache_hit_rate",
    "cpu_cache_usage_perc",
    "avg_generation_throughput_toks_per_s",
    "time_per_output_token_seconds",
}
OLD_SGLANG = {"new_token", "time_per_output_token_seconds"}


def catalogue(engine: str) -> Catalogue:
    """The catalogue of an engine."""
    return next(one for one in catalogues() if one.engine == engine)


# Where vLLM names its series; what has not come yet in a version has no such folder.
VLLM_PLACES = (
    "v1/metrics/*.py",
    "v1/kv_offload/**/*.py",
    "v1/simple_kv_offload/*.py",
    "distributed/kv_transfer/**/*.py",
)


def text_of(folder: Path, *patterns: str) -> str:
    """Sources that match any pattern, one after the other."""
    files = sorted(file for pattern in patterns for file in folder.glob(pattern))
    assert files, f"no sources under {folder}"
    return "\n".join(file.read_text("utf-8", "replace") for file in files)


def unknown(stems: set[str], sources: str) -> set[str]:
    """Those of which the sources know nothing."""
    return {stem for stem in stems if not re.search(rf"[:\"_.]{re.escape(stem)}(_total)?[\"_\\]", sources)}


def vllm_stems(version: str) -> set[str]:
    """Families that hold in a version of vLLM, without what Prometheus appends."""
    number = version_number(version)
    assert number is not None
    return {
        base_name(entry.family)
        for entries in catalogue("vllm").signals.values()
        for entry in entries
        if (until := version_number(entry.until or "")) is None or number < until
    } - OLD_VLLM


@pytest.mark.engine_sources("0.33.0")
def test_names_of_vllm_0_33() -> None:
    """Every name that holds now is one that vLLM 0.33 writes."""
    sources = text_of(VLLM / "0.33.0/vllm", *VLLM_PLACES)
    assert unknown(vllm_stems("0.33.0"), sources) == set()


@pytest.mark.engine_sources("0.24.0")
def test_names_of_vllm_0_24_came_before_those_that_are_missing_there() -> None:
    """What 0.24 lacks is what came later, and none of what the answer to doctor's question rests on."""
    sources = text_of(VLLM / "0.24.0/vllm", *VLLM_PLACES)
    later = unknown(vllm_stems("0.24.0"), sources)
    assert later <= {
        "admission_rejections",
        "kv_offload_allocation_failure",
        "kv_offload_lookup_sync_delay_seconds",
        "kv_offload_tiering_chunk_hits",
        "kv_offload_tiering_chunk_queries",
        "kv_offload_tiering_read_bytes",
        "kv_offload_tiering_read_time",
        "kv_offload_tiering_write_bytes",
        "kv_offload_tiering_write_time",
        "prompt_tokens_cached_by_source",
        "simple_kv_offload_load_blocks",
        "simple_kv_offload_save_outcomes",
    }


@pytest.mark.parser("sglang")
def test_names_of_sglang() -> None:
    """Every name is one that SGLang 0.5.23 writes."""
    folder = next(PARSERS.glob("sglang/lib/python*/site-packages/sglang"))
    stems = {base_name(e.family) for entries in catalogue("sglang").signals.values() for e in entries} - OLD_SGLANG
    assert unknown(stems, text_of(folder, "srt/observability/*.py")) == set()


@pytest.mark.parser("lmcache")
def test_names_of_lmcache() -> None:
    """Every name is one that LMCache 0.5.6 writes, in process or as a server, whose exporter appends units."""
    folder = next(PARSERS.glob("lmcache/lib/python*/site-packages/lmcache"))
    inside = {base_name(e.family) for entries in catalogue("lmcache").signals.values() for e in entries}
    assert unknown(inside, text_of(folder, "*.py")) == set()
    server = {base_name(e.family) for entries in catalogue("lmcache-mp").signals.values() for e in entries}
    server = {re.sub(r"_(tokens|chunks|seconds)$", "", stem) for stem in server}
    sources = text_of(folder, "v1/mp_observability/**/*.py") + text_of(folder, "v1/distributed/*.py")
    assert unknown(server, sources) == set()


def test_names_of_the_plugin() -> None:
    """The catalogue of our own plug-in has every series that the plug-in defines, and no other."""
    defined = {base_name(one.name.removeprefix("kv_autotune_")) for one in DEFINITIONS}
    own = catalogue("kv-autotune")
    known = {base_name(e.family) for entries in own.signals.values() for e in entries}
    known |= {info.family for info in own.infos}
    # Requests are counted beside chunks; the chunks are what is read.
    assert known == defined - {"lookups"}


def test_catalogues_say_where_their_names_come_from() -> None:
    """Each has a source, versions, and markers of its own."""
    markers = [marker for one in catalogues() for marker in one.markers]
    assert len(markers) == len(set(markers))
    assert all(one.source and one.versions for one in catalogues())
    assert {one.engine for one in catalogues()} >= {
        "vllm",
        "sglang",
        "lmcache",
        "lmcache-mp",
        "tensorrt-llm",
        "dynamo-kvbm",
        "llama-cpp",
        "triton",
        "kv-autotune",
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.32.0rc1", (0, 32, 0)), ("v1.2", (1, 2)), ("b7010-abc", (7010,)), ("", None), ("main", None), ("1.x", (1,))],
)
def test_numbers_of_versions(text: str, number: tuple[int, ...] | None) -> None:
    """Leading numbers count, whatever follows; a text without any is no version."""
    assert version_number(text) == number
