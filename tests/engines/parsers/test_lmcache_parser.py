"""What is rendered for LMCache, in the hands of LMCache's own parsers."""

from __future__ import annotations

import shlex

import pytest
from engine_parser import accepted, ask
from export_documents import DISK, document, export

from autotune.core.errors import ConfigError
from autotune.core.units import GIB
from autotune.export.field_table import table
from autotune.export.lmcache import check, check_mp

pytestmark = pytest.mark.parser("lmcache")

POLICIES = (
    document(),
    document(chunk_tokens=512, min_load_tokens=1024, disk_gib=1000),
    document(device_gib=1e-6, host_gib=0.002, disk_gib=1e-5),
    document(device_gib=1e6, host_gib=2**28 + 0.3, disk_gib=2**29),
    *(document(device_gib=1, host_gib=1 + step / 7) for step in range(1, 40)),
)


def test_file_is_read_without_a_warning() -> None:
    """LMCache knows every name, keeps every value, and its validation passes."""
    rendered = [export("lmcache", policy, ranks=2, disk_dir=DISK) for policy in POLICIES]
    for export_, parsed in zip(rendered, accepted("lmcache", *({"yaml": r.text} for r in rendered)), strict=True):
        assert parsed == {"values": export_.settings, "warnings": []}


def test_server_reads_bytes_exactly() -> None:
    """The server gets the policy's bytes, its chunk, LRU, and the folder where there is a disk tier."""
    flags = [{"flags": shlex.split(export("lmcache-mp", policy, disk_dir=DISK).text)} for policy in POLICIES]
    for policy, parsed in zip(POLICIES, accepted("lmcache", *flags), strict=True):
        assert parsed["l1_bytes"] == policy.budgets.host_bytes
        assert parsed["eviction"]["eviction_policy"] == "LRU"
        assert parsed["chunk_size"] == (policy.tiers.host.chunk_tokens or 256 if policy.tiers.host else None)
        assert parsed["l2"] == (["FSL2AdapterConfig"] if policy.tiers.disk else [])


def test_table_has_exactly_the_names_of_lmcache() -> None:
    """A name that LMCache adds or drops is seen here."""
    (names,) = accepted("lmcache", {"names": True})
    assert set(table("lmcache").fields) == set(names)
    assert len(names) == 108


def test_parser_takes_what_the_table_refuses() -> None:
    """LMCache logs unknown names and drops bad values, and takes negative sizes; that is why they are checked here."""
    unknown, bad, negative, watermark = accepted(
        "lmcache",
        {"yaml": "chunk_sise: 256"},
        {"yaml": "max_local_disk_size: abc"},
        {"yaml": "max_local_cpu_size: -3.0"},
        {"flags": ["--l1-size-gb", "-3", "--eviction-policy", "LRU", "--eviction-trigger-watermark", "1.5"]},
    )
    assert "Unknown configuration key: chunk_sise" in unknown["warnings"][0]
    assert "Failed to convert" in bad["warnings"][0]
    assert bad["values"] == {"max_local_disk_size": None}
    assert negative["values"] == {"max_local_cpu_size": -3.0}
    assert (watermark["l1_bytes"], watermark["eviction"]["trigger_watermark"]) == (-3 * GIB, 1.5)
    for given in ({"chunk_sise": 256}, {"max_local_disk_size": "abc"}, {"max_local_cpu_size": -3.0}):
        with pytest.raises(ConfigError):
            check(dict(given))
    with pytest.raises(ConfigError):
        check_mp({"l1-size-gb": -3.0, "eviction-policy": "LRU"})


def test_server_refuses_another_policy() -> None:
    """Names of eviction policies are checked by the server itself, and the table has the same."""
    names = table("lmcache-mp").fields["eviction-policy"].choices
    size = ["--l1-size-gb", "1", "--eviction-policy"]
    answers = ask("lmcache", *({"flags": [*size, name]} for name in (*names, "LFU")))
    assert [answer.accepted for answer in answers] == [True] * len(names) + [False]
