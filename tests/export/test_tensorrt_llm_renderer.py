"""Policy documents as TensorRT-LLM's kv_cache_config."""

from __future__ import annotations

import pytest
import yaml
from export_documents import document, export, notes, settings

from autotune.core.errors import ConfigError
from autotune.core.policy import Hints
from autotune.core.units import GIB
from autotune.export.renderer import Settings
from autotune.export.tensorrt_llm import check


def section(**options: object) -> Settings:
    """The section that is rendered."""
    found = settings("tensorrt-llm", document(chunk_tokens=64), **options)["kv_cache_config"]
    assert isinstance(found, dict)
    return found


def test_bytes_are_per_rank() -> None:
    """160 GiB and 40 GiB over four ranks, in bytes; a chunk of the policy is TensorRT-LLM's block."""
    assert section(ranks=4) == {
        "enable_block_reuse": True,
        "max_gpu_total_bytes": 10 * GIB,
        "host_cache_size": 40 * GIB,
        "tokens_per_block": 64,
    }


def test_text_is_yaml_with_an_example_of_retention() -> None:
    """What YAML reads is the settings; the example of retention per request is a comment."""
    rendered = export("tensorrt-llm", document())
    assert yaml.safe_load(rendered.text) == rendered.settings
    assert "KvCacheRetentionConfig.TokenRangeRetentionConfig(0, 1024, 80" in rendered.text


def test_priorities_of_clients_choose_what_is_offloaded() -> None:
    """Blocks of ordinary requests are offloaded, those of requests below the ordinary priority are not."""
    given = document(hints=Hints(use_priority=True))
    found = settings("tensorrt-llm", given)["kv_cache_config"]
    assert isinstance(found, dict)
    assert found["secondary_offload_min_priority"] == 30
    assert "priority of 30 or less are not stored" in notes("tensorrt-llm", given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host_cache_size": -1}, "host_cache_size of tensorrt-llm must be at least 0"),
        ({"host_cache_bytes": 1}, "did you mean host_cache_size"),
        ({"free_gpu_memory_fraction": 1.5}, "at most 1"),
        ({"host_cache_size": 1, "enable_block_reuse": False}, "needs enable_block_reuse"),
        ({"host_cache_size": 1, "max_tokens": 4096}, "max_tokens limits the host tier too"),
        ({"tokens_per_block": 48}, "a power of two above 1; got 48"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: Settings, said: str) -> None:
    """Unknown names, impossible values and pairs that undo each other are errors."""
    with pytest.raises(ConfigError, match=said):
        check(dict(given))


def test_settings_that_gave_wrong_tokens_are_refused() -> None:
    """The settings of a public report (NVIDIA/TensorRT-LLM, 8813): tokens of other prompts in the output."""
    text = """
    enable_partial_reuse: false
    enable_block_reuse: true
    dtype: fp8
    free_gpu_memory_fraction: 0.85
    host_cache_size: 68719476736
    """
    given = yaml.safe_load(text)
    with pytest.raises(ConfigError, match=r"wrong tokens in 1.2 release candidates .*8813.*; got dtype fp8"):
        check(dict(given))
    assert check({**given, "enable_partial_reuse": True})
