"""Policy documents as vLLM's short form, and what the long form does with a disk tier."""

from __future__ import annotations

import json
from typing import Any

import pytest
from export_documents import DISK, document, export, notes

from autotune.core.errors import ConfigError
from autotune.core.types import Admission
from autotune.core.units import GIB
from autotune.export import Flavor
from autotune.export.vllm import check as check_long
from autotune.export.vllm_size import check


def test_short_form_has_gib_in_all() -> None:
    """The size is that of all ranks, in GiB."""
    rendered = export("vllm-size", document(), ranks=8)
    assert rendered.text == "--kv-offloading-size 160.0 --kv-offloading-backend native"
    assert "leave --kv-transfer-config away" in "\n".join(rendered.notes)


def test_short_form_has_no_chunks() -> None:
    """Chunks need the long form."""
    with pytest.raises(
        ConfigError, match=r"no place for chunks; got tiers.host.chunk_tokens 64; set it to 0, or export"
    ):
        export("vllm-size", document(chunk_tokens=64))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kv-offloading-size": 4.0, "kv-transfer-config": "{}"}, "never given together"),
        ({"kv-offloading-size": -4.0}, "greater than 0; got -4.0"),
        ({"kv-offloading-size": 0}, "greater than 0"),
    ],
)
def test_what_vllm_takes_by_mistake_is_refused(given: dict[str, str | float], said: str) -> None:
    """A negative size, and two ways to the same tier of which one overwrites the other."""
    with pytest.raises(ConfigError, match=said):
        check(dict(given))


def extra(flavor: Flavor, **host: Any) -> dict[str, Any]:
    """The extra configuration of the long form, for a policy with a disk tier whose folder is known."""
    config = json.loads(export("vllm", document(disk_gib=1000, **host), flavor=flavor, disk_dir=DISK).text)
    found: dict[str, Any] = config["kv_connector_extra_config"]
    return found


@pytest.mark.parametrize(
    ("flavor", "spec"),
    [(Flavor.STOCK, "TieringOffloadingSpec"), (Flavor.PLUGIN, "AutotuneTieringOffloadingSpec")],
)
def test_disk_tier_needs_the_tiering_spec(flavor: Flavor, spec: str) -> None:
    """With a folder the spec is the one with tiers, and the folder is its file system."""
    found = extra(flavor)
    assert found["spec_name"] == spec
    assert found["secondary_tiers"] == [{"type": "fs", "root_dir": str(DISK)}]
    assert found["cpu_bytes_to_use"] == 160 * GIB
    said = notes("vllm", document(disk_gib=1000), flavor=flavor, disk_dir=DISK)
    assert "not expressed: the budget of 1,000 GiB on disk" in said


def test_threshold_with_tiers_is_refused() -> None:
    """Stock vLLM cannot wait for the second hit where there are tiers below the host; the plug-in can."""
    with pytest.raises(
        ConfigError, match="no threshold for storing where there is a disk tier; got store_threshold 2 "
    ):
        extra(Flavor.STOCK, admission=Admission.TWO_HIT)
    assert "store_threshold" not in extra(Flavor.PLUGIN, admission=Admission.TWO_HIT)


def tiers(**extra: Any) -> dict[str, Any]:
    """The kind of argument that a public report has (vllm-project/vllm, 46216): a host tier, and files below it."""
    config: dict[str, Any] = json.loads(
        '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":'
        '"TieringOffloadingSpec","cpu_bytes_to_use":429496729600,"eviction_policy":"lru","secondary_tiers":'
        '[{"type":"fs","root_dir":"/mnt/nvme_storage"}]}}'
    )
    config["kv_connector_extra_config"] |= extra
    return config


def test_tiers_of_a_public_report_pass() -> None:
    """What vLLM does as it says is left alone."""
    assert check_long(tiers()) == tiers()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (tiers(store_threshold=2), "no threshold for storing"),
        (tiers(cpu_bytes_to_use=-1), "cpu_bytes_to_use of vllm must be at least 1"),
        (tiers(cpu_bytes=1), r"no setting of vllm 0.32; got 1; did you mean cpu_bytes_to_use\?"),
        ({"kv_connector": "OffloadingConector"}, "kv_connector must be the one for host memory"),
        ({"kv_connector": "OffloadingConnector", "kv_connector_extra_config": [1]}, "is an object"),
    ],
)
def test_what_the_long_form_takes_by_mistake_is_refused(config: dict[str, Any], said: str) -> None:
    """Names that vLLM looks up late or never, and bytes that no pool can have."""
    with pytest.raises(ConfigError, match=said):
        check_long(config)
