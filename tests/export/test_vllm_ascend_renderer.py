"""Policy documents as vLLM-Ascend's connector."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from export_documents import document, export, notes, settings

from autotune.core.errors import ConfigError
from autotune.core.types import StoreMode
from autotune.core.units import GIB
from autotune.export.field_table import table
from autotune.export.renderer import Settings
from autotune.export.vllm_ascend import check


@pytest.mark.parametrize(
    ("mode", "lazy"), [(StoreMode.EAGER, False), (StoreMode.LAZY, True), (StoreMode.EXCLUSIVE, True)]
)
def test_connector_has_the_total_and_the_store_mode(mode: StoreMode, lazy: bool) -> None:
    """Bytes are those of all ranks; both modes of the policy that store at eviction are lazy there."""
    rendered = export("vllm-ascend", document(store_mode=mode), ranks=4)
    assert json.loads(rendered.text) == rendered.settings
    assert rendered.settings == {
        "kv_connector": "SimpleCPUOffloadConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": 160 * GIB, "lazy_offload": lazy},
    }
    assert "160 GiB, 40 GiB for each of 4" in "\n".join(rendered.notes)


def test_notes_name_cann_and_the_spec_that_cannot_load() -> None:
    """A user reads which CANN it needs, and why the documented spec is not used."""
    said = notes("vllm-ascend", document())
    assert "CANN 9.1.0" in said
    assert "NPUOffloadingSpec" in said
    assert "NPUOffloadingSpec" not in str(settings("vllm-ascend", document()))


def test_chunks_are_refused() -> None:
    """The connector stores block by block."""
    with pytest.raises(ConfigError, match=r"stores block by block; got tiers.host.chunk_tokens 64"):
        export("vllm-ascend", document(chunk_tokens=64))


def test_spec_that_cannot_load_is_refused() -> None:
    """The argument of a public report (vllm-project/vllm-ascend, 7469): a spec that this release cannot import."""
    given = json.loads(
        '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"num_cpu_blocks":1000,'
        '"spec_name":"NPUOffloadingSpec","spec_module_path":"vllm_ascend.kv_offload.npu"}}'
    )
    with pytest.raises(ConfigError, match="num_cpu_blocks of vllm-ascend belongs to NPUOffloadingSpec"):
        check(given)


@pytest.mark.parametrize(
    ("connector", "extra", "said"),
    [
        ("SimpleCPUOffloadConector", {}, "must be one that vLLM-Ascend"),
        ("OffloadingConnector", {}, "must be one that vLLM-Ascend"),
        ("SimpleCPUOffloadConnector", {"cpu_bytes": 1}, "did you mean cpu_bytes_to_use"),
        ("SimpleCPUOffloadConnector", {"cpu_bytes_to_use": -1}, "at least 1"),
        ("SimpleCPUOffloadConnector", {"cpu_bytes_to_use": 1, "lazy_offload": "false"}, "of type bool"),
    ],
)
def test_what_is_taken_by_mistake_is_refused(connector: str, extra: Settings, said: str) -> None:
    """Unknown connectors and keys, and a text that counts as true, are errors."""
    with pytest.raises(ConfigError, match=said):
        check({"kv_connector": connector, "kv_connector_extra_config": dict(extra)})


@pytest.mark.engine_sources("0.24.0")
def test_connector_reads_every_key_of_the_table() -> None:
    """The connector that vLLM-Ascend adapts is vLLM's; its source, one version on, has every key that may be given."""
    sources = Path(os.environ.get("VLLM_SOURCES") or Path(__file__).parents[2] / ".vllm-sources")
    name = "vllm/distributed/kv_transfer/kv_connector/v1/simple_cpu_offload_connector.py"
    text = (sources / "0.24.0" / name).read_text(encoding="utf-8")
    keys = [key for key, field in table("vllm-ascend").fields.items() if not field.refused]
    assert keys
    assert [key for key in keys if f'"{key}"' not in text] == []
