"""What is rendered for DeepSpeed, in the hands of DeepSpeed's own configuration."""

from __future__ import annotations

import pytest
from engine_parser import accepted, ask
from export_documents import document, export

from autotune.core.errors import ConfigError
from autotune.export.deepspeed import check

pytestmark = pytest.mark.parser("deepspeed")


@pytest.mark.parametrize("resident", [0.0, 1.0])
def test_section_is_read(resident: float) -> None:
    """DeepSpeed's strict model takes the section."""
    section = export("deepspeed", document(streaming=(resident, 1))).settings["zero_optimization"]
    assert accepted("deepspeed", {"zero": section}) == [{"stage": 3}]


def test_parser_is_strict_but_for_the_path() -> None:
    """Unknown names and devices are refused by DeepSpeed; NVMe without a path is taken, and refused here."""
    pathless = {"stage": 3, "offload_param": {"device": "nvme"}}
    unknown, device, taken = ask(
        "deepspeed",
        {"zero": {"stage": 3, "kv_offload": True}},
        {"zero": {"stage": 3, "offload_param": {"device": "gpu"}}},
        {"zero": pathless},
    )
    assert "Extra inputs are not permitted" in unknown.error
    assert "'none', 'cpu' or 'nvme'" in device.error
    assert taken.accepted
    with pytest.raises(ConfigError, match="needs nvme_path"):
        check(pathless)  # type: ignore[arg-type]
