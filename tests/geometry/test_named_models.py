"""Models that come along by name."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from autotune.core.errors import ConfigError
from autotune.geometry import block_bytes, load_model, model_names


def test_names_are_sorted_and_contain_the_well_known() -> None:
    """The names that documentation uses are there."""
    names = model_names()
    assert list(names) == sorted(names)
    assert {"llama-3.1-8b", "llama-3.1-70b", "llama-3.2-1b", "qwen2.5-7b", "qwen2.5-72b", "mistral-7b-v0.3"} <= set(
        names
    )


@pytest.mark.parametrize("name", model_names())
def test_file_names_its_model_and_source(name: str) -> None:
    """Every file is named after its model and gives the page that its figures stand on."""
    text = (resources.files("autotune_configs") / "models" / f"{name}.yaml").read_text("utf-8")
    assert load_model(name).name == name
    assert "source: https://huggingface.co/" in text
    assert f"# KV: {load_model(name).kv_bytes_per_token:,} bytes per token." in text


def test_llama_8b() -> None:
    """Llama 3.1 8B: 131,072 bytes per token in BF16, half of that in FP8, 8.03e9 weights, 64 MiB per 512 tokens."""
    model = load_model("llama-3.1-8b")
    assert model.kv_bytes_per_token == 131_072
    assert load_model("llama-3.1-8b", kv_dtype="fp8").kv_bytes_per_token == 65_536
    assert model.n_parameters == pytest.approx(8.03e9, rel=1e-3)
    assert block_bytes(model, 512) == 64 * 2**20


def test_unknown_name_gets_the_nearest() -> None:
    """A misspelt name is answered with the nearest and the whole list."""
    with pytest.raises(ConfigError, match=r"got 'llama-3\.1-8B'; did you mean 'llama-3\.1-8b'\? known: llama-2-7b"):
        load_model("llama-3.1-8B")


def test_own_yaml_file(tmp_path: Path) -> None:
    """A file written like those that come along is read by its path, and its faults are named."""
    path = tmp_path / "mine.yaml"
    sizes = "n_parameters: 10, n_layers: 2, n_heads: 4, n_kv_heads: 2, head_dim: 8"
    text = f"{{name: mine, source: measured, kv_dtype: fp8, {sizes}}}"
    path.write_text(text, encoding="utf-8")
    assert load_model(str(path)).kv_bytes_per_token == 2 * 2 * 2 * 8
    path.write_text(text.replace("n_layers", "layers"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.yaml: layers is not a known name.*n_layers"):
        load_model(str(path))
