"""Policy documents as flags of DeepSpeed ZeRO-Inference."""

from __future__ import annotations

import pytest
from export_documents import document, export, notes

from autotune.core.errors import ConfigError
from autotune.export.deepspeed import check
from autotune.export.renderer import Settings


@pytest.mark.parametrize(
    ("resident", "depth", "text"),
    [
        (1.0, 1, "--batch-size 8"),
        (0.0, 0, "--batch-size 8 --kv-offload --pin_kv_cache"),
        (0.0, 1, "--batch-size 8 --kv-offload --pin_kv_cache --async_kv_offload"),
    ],
)
def test_all_or_nothing_lies_on_the_host(resident: float, depth: int, text: str) -> None:
    """P 1 says nothing about KV, p 0 puts all of it into pinned host memory, and a depth makes copies asynchronous."""
    assert export("deepspeed", document(streaming=(resident, depth)), batch_size=8).text == text


def test_share_between_is_refused() -> None:
    """DeepSpeed cannot split the KV."""
    with pytest.raises(ConfigError, match=r"resident_frac must be 0 or 1; got 0.5; use 0 .* or 1, or export for"):
        export("deepspeed", document(streaming=(0.5, 1)))


def test_depth_is_named_where_there_is_none() -> None:
    """Copies are asynchronous or not; how far ahead cannot be said."""
    assert "not expressed: prefetch depth 4" in notes("deepspeed", document(streaming=(0.0, 4)))


@pytest.mark.parametrize("part", ["offload_param", "offload_optimizer"])
def test_nvme_without_a_path_is_refused(part: str) -> None:
    """DeepSpeed accepts the device alone and fails later."""
    section: Settings = {"device": "nvme"}
    with pytest.raises(ConfigError, match=f"{part} to nvme needs nvme_path"):
        check({"stage": 3, part: section})
    assert check({"stage": 3, part: {**section, "nvme_path": "/mnt/nvme"}})
    assert check({"stage": 3, part: {"device": "cpu"}})
