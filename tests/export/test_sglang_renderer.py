"""Policy documents as SGLang's flags."""

from __future__ import annotations

import json
import shlex

import pytest
from export_documents import DISK, document, export, notes, settings

from autotune.core.errors import ConfigError
from autotune.core.policy import Hints, StoredTier
from autotune.core.types import Admission, StoreMode
from autotune.core.units import GB, GIB
from autotune.export.renderer import Settings
from autotune.export.sglang import check

BASE: Settings = {"enable-hierarchical-cache": True}


def test_sizes_are_whole_gb_per_rank_and_tokens_of_the_engine() -> None:
    """160 GiB over two ranks are 85 GB each, rounded down; 40 GiB at 128 KiB per token are 327,680 tokens."""
    given = settings("sglang", document(), ranks=2)
    assert given["hicache-size"] == 80 * GIB // GB == 85
    assert given["max-total-tokens"] == 40 * GIB // 131_072
    assert "85 of 85.90 for each of 2; --hicache-ratio 4 would say the same" in notes("sglang", document(), ranks=2)


def test_text_is_the_settings() -> None:
    """A shell gives the words back; a switch has no value."""
    rendered = export("sglang", document(disk_gib=1000), disk_dir=DISK)
    words = shlex.split(rendered.text)
    assert words[:3] == ["--enable-hierarchical-cache", "--max-total-tokens", "327680"]
    extra = json.loads(words[words.index("--hicache-storage-backend-extra-config") + 1])
    assert extra["file_storage_path"] == str(DISK)


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ({}, "write_through"),
        ({"admission": Admission.TWO_HIT}, "write_through_selective"),
        ({"store_mode": StoreMode.LAZY}, "write_back"),
        ({"store_mode": StoreMode.EXCLUSIVE}, "write_back"),
    ],
)
def test_store_mode_is_the_write_policy(host: dict[str, object], written: str) -> None:
    """Eager writes through, the second hit makes it selective, and lazy stores what leaves the device."""
    assert settings("sglang", document(**host))["hicache-write-policy"] == written  # type: ignore[arg-type]


def test_priorities_of_clients_order_evictions() -> None:
    """SGLang evicts by priority where the policy lets clients give one, else by last use."""
    assert settings("sglang", document())["radix-eviction-policy"] == "lru"
    given = document(hints=Hints(use_priority=True, use_session=True))
    assert settings("sglang", given)["radix-eviction-policy"] == "priority"
    assert "not expressed: session hints" in notes("sglang", given)


def test_prefetch_gives_up_when_computing_would_be_done() -> None:
    """1,024 tokens at 40.15 µs of prefill each are 41 ms; shorter runs than the policy's are not fetched."""
    given = document(disk_gib=1000, disk=StoredTier(min_load_tokens=512))
    extra = json.loads(str(settings("sglang", given, disk_dir=DISK)["hicache-storage-backend-extra-config"]))
    assert extra["prefetch_timeout_per_ki_token"] == pytest.approx(0.041, abs=5e-4)
    assert extra["prefetch_threshold"] == 512


def test_chunk_is_a_page() -> None:
    """A chunk of the policy is SGLang's page; the page that the engine is said to have must divide it."""
    assert settings("sglang", document(chunk_tokens=64))["page-size"] == 64
    assert "page-size" not in settings("sglang", document())
    with pytest.raises(ConfigError, match="multiple of the engine's block of 48 tokens; got 64"):
        export("sglang", document(chunk_tokens=64), block_tokens=48)


def test_less_than_a_gb_per_rank_is_refused() -> None:
    """The flag counts whole GB."""
    with pytest.raises(ConfigError, match="counts whole GB"):
        export("sglang", document(device_gib=0.1, host_gib=0.5))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hicache-size": -4}, "hicache-size of sglang must be at least 0"),
        ({"hicache-ratio": 0.5}, "larger than the device tier: .*got --hicache-ratio 0.5"),
        ({"hicache-write-policy": "sometimes"}, "one of write_back"),
        ({"disable-radix-cache": True}, "excludes --disable-radix-cache"),
        ({"enable-lmcache": True}, "excludes --enable-lmcache"),
        ({"hicache-storage-backend": "file", "hicache-storage-backend-extra-config": "{bad"}, "is a JSON object"),
        ({"hicache-storage-backend": "file", "hicache-storage-backend-extra-config": "3"}, "is a JSON object"),
        ({"hicache-storage-prefetch-policy": "timeout"}, "needs --hicache-storage-backend"),
        ({"hicache-sise": 4}, r"did you mean hicache-size\?"),
    ],
)
def test_what_sglang_takes_by_mistake_is_refused(given: dict[str, str | int | float], said: str) -> None:
    """Faults that SGLang's parser lets through are errors here."""
    with pytest.raises(ConfigError, match=said):
        check({**BASE, **given})


def test_storage_without_hicache_is_refused() -> None:
    """Settings of a tier that is switched off do nothing."""
    with pytest.raises(ConfigError, match="--hicache-storage-backend needs --enable-hierarchical-cache"):
        check({"hicache-storage-backend": "file"})


def test_host_smaller_than_device_is_refused() -> None:
    """The flags of a public report (sgl-project/sglang, 39444): 4 GB for 27,127 tokens below a device of 42,763."""
    given: Settings = {
        **BASE,
        "hicache-size": 4,
        "hicache-write-policy": "write_through",
        "hicache-storage-backend": "mooncake",
    }
    device_gb = 4 * 42_763 / 27_127
    with pytest.raises(ConfigError, match=r"4 GB per rank on the host and 6.3 GB on the device; .*write_back"):
        check(dict(given), device_gb)
    assert check({**given, "hicache-write-policy": "write_back"}, device_gb)
    assert check({**given, "hicache-size": 7}, device_gb)
