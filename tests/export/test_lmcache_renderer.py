"""Policy documents as LMCache's YAML file and as the flags of its server."""

from __future__ import annotations

import pytest
import yaml
from export_documents import DISK, document, export, notes, settings

from autotune.core.errors import ConfigError
from autotune.core.types import Admission, StoreMode
from autotune.export.lmcache import check, check_mp


def test_file_has_sizes_per_rank() -> None:
    """160 GiB over two ranks are 80 GiB each; what is read from the text is what ``settings`` has."""
    rendered = export("lmcache", document(chunk_tokens=512, min_load_tokens=1024), ranks=2)
    assert yaml.safe_load(rendered.text) == rendered.settings
    assert rendered.settings == {
        "chunk_size": 512,
        "local_cpu": True,
        "max_local_cpu_size": 80.0,
        "cache_policy": "LRU",
        "min_retrieve_tokens": 1024,
    }
    assert "80 GiB for each of 2, 160 GiB in all" in "\n".join(rendered.notes)


def test_server_has_the_total() -> None:
    """The server's size is that of all ranks, however many there are."""
    assert settings("lmcache-mp", document(), ranks=4) == {
        "l1-size-gb": 160.0,
        "eviction-policy": "LRU",
        "chunk-size": 256,
    }


def test_disk_has_its_share_and_its_folder() -> None:
    """A disk tier with a folder is per rank in the file; the server has no budget for it, and says so."""
    given = document(disk_gib=600)
    file = settings("lmcache", given, ranks=2, disk_dir=DISK)
    assert (file["local_disk"], file["max_local_disk_size"]) == (str(DISK), 300.0)
    assert settings("lmcache-mp", given, disk_dir=DISK)["l2-adapter"] == {"type": "fs", "base_path": str(DISK)}
    assert "not expressed: the budget of 600 GiB on disk" in notes("lmcache-mp", given, disk_dir=DISK)


@pytest.mark.parametrize("engine", ["lmcache", "lmcache-mp"])
@pytest.mark.parametrize(("chunk", "block", "got"), [(64, 48, "64"), (0, 96, "256")])
def test_chunk_that_blocks_do_not_fill_is_refused(engine: str, chunk: int, block: int, got: str) -> None:
    """The policy's chunk, or LMCache's own of 256 tokens, must be whole blocks of the engine."""
    with pytest.raises(ConfigError, match=f"multiple of the engine's block of {block} tokens; got {got}"):
        export(engine, document(chunk_tokens=chunk), block_tokens=block)
    assert export(engine, document(chunk_tokens=chunk), block_tokens=32).text


def test_notes_name_modes_that_lmcache_lacks() -> None:
    """Lazy stores, the second hit and blocks one by one are no modes of LMCache."""
    said = notes("lmcache", document(admission=Admission.TWO_HIT, store_mode=StoreMode.LAZY))
    assert "not expressed: admission 'two_hit'" in said
    assert "not expressed: store mode 'lazy'" in said
    assert "not expressed: storing block by block" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_local_cpu_size": -1.0}, "max_local_cpu_size of lmcache must be at least 0"),
        ({"chunk_size": 0}, "chunk_size of lmcache must be at least 1"),
        ({"max_local_disk_size": "abc"}, "must be of type float"),
        ({"cache_policy": "ARC"}, "one of LRU, LFU, FIFO, MRU"),
        ({"chunk_sise": 256}, r"no setting of lmcache 0.5.6; got 256; did you mean chunk_size\?"),
        ({"local_disk": "/mnt", "max_local_cpu_size": 0.0}, "reached through the host tier"),
    ],
)
def test_what_lmcache_only_logs_is_refused(given: dict[str, str | int | float], said: str) -> None:
    """Faults that LMCache logs and runs with are errors here."""
    with pytest.raises(ConfigError, match=said):
        check(dict(given))


def test_disk_size_without_a_folder_is_refused() -> None:
    """The settings of a public report (LMCache/LMCache, 1061): 600 GiB of disk that are never used."""
    given = yaml.safe_load("chunk_size: 256\nlocal_cpu: true\nmax_local_cpu_size: 393.216\nmax_local_disk_size: 600.0")
    with pytest.raises(ConfigError, match="counts only where local_disk names a folder; got no local_disk; add"):
        check(given)
    assert check({**given, "local_disk": "/mnt/kv"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"l1-size-gb": -3.0}, "l1-size-gb of lmcache-mp must be at least"),
        ({"eviction-trigger-watermark": 1.5}, "at most 1; got 1.5"),
        ({"eviction-policy": "LFU"}, "one of LRU, ARC, IsolatedLRU, noop"),
        ({"l1-size-gb": 1.0}, "needs an eviction policy"),
    ],
)
def test_what_the_server_takes_by_mistake_is_refused(given: dict[str, str | float], said: str) -> None:
    """Flags that make no sense are errors."""
    with pytest.raises(ConfigError, match=said):
        check_mp(dict(given))
