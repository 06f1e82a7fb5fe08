"""The page about vLLM says what the plug-in takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from autotune.export.vllm_notes import TESTED_VERSIONS
from autotune_policies.engines.live import settings
from autotune_policies.engines.live.settings import EngineSettings

PAGE = (Path(__file__).parents[2] / "docs/vllm.md").read_text(encoding="utf-8")


def test_every_setting_has_a_row() -> None:
    """The table of settings has the plug-in's own keys, all of them and no other."""
    table = PAGE.partition("## Settings")[2].partition("## ")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    assert {key for row in rows for key in row} == set(settings._OUR_KEYS)


def test_examples_are_configurations() -> None:
    """Every example of ``--kv-transfer-config`` is JSON, and the plug-in takes what it says; placeholders aside."""
    blocks = re.findall(r"(\{\"kv_connector\": .*?\}\})", PAGE, re.DOTALL)
    examples = [json.loads(block) for block in blocks if "EXPORTED" not in block]
    assert len(examples) >= 2
    for example in examples:
        EngineSettings.from_extra_config(example["kv_connector_extra_config"], {})


def test_tested_versions_are_those_of_the_table() -> None:
    """The versions in the notes of ``export`` are the first and last column of the table of versions."""
    table = (Path(__file__).parents[2] / "docs/compatibility.md").read_text(encoding="utf-8")
    columns = re.findall(r"\d+\.\d+", next(line for line in table.splitlines() if line.startswith("| |")))
    assert f"{columns[0]} to {columns[-1]}" == TESTED_VERSIONS
