"""``make demo-active`` on a smaller model and fewer settings."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine("torch", "transformers")


def test_the_demo_draws_what_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every p and d is a cell of the picture, with a measurement and a prediction."""
    import active_demo

    from autotune.core.streaming import Workload

    small = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "vocab_size": 64}
    monkeypatch.setattr(active_demo, "MODEL", active_demo.MODEL | small)
    monkeypatch.setattr(active_demo, "WORKLOAD", Workload(prompt_tokens=32, new_tokens=6, repeats=1))
    monkeypatch.setattr(active_demo, "DEPTHS", (0, 1))
    assert active_demo.main(["--out", str(tmp_path)]) == 0
    root = ET.parse(tmp_path / "surface.svg").getroot()
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert sum(words.endswith(" ms") for words in texts) == len(active_demo.SHARES) * 2
    assert {"d = 0", "d = 1", "p = 0.25"} <= set(texts)
