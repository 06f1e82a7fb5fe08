"""What is rendered for Transformers, run by Transformers."""

from __future__ import annotations

from typing import Any

import pytest
from export_documents import document, export

from autotune.core.streaming import Placement
from autotune.export import Flavor

pytestmark = pytest.mark.engine("torch", "transformers")


# Two of four layers.
STREAMED = {Placement.EVEN: {1, 3}, Placement.FIRST: {0, 1}, Placement.LAST: {2, 3}}


@pytest.fixture(scope="module")
def model() -> Any:
    """A small random model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def inputs() -> dict[str, Any]:
    """A prompt of twelve tokens, of which eight more are to come."""
    import torch

    return {"input_ids": torch.arange(1, 13)[None], "max_new_tokens": 8, "do_sample": False}


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize(("resident", "depth"), [(0.0, 1), (0.5, 2), (1.0, 0)])
def test_python_text_runs_and_generates_the_same(
    resident: float, depth: int, placement: Placement, model: Any, inputs: dict[str, Any]
) -> None:
    """The text, run as it stands, streams the policy's layers and generates what the model generates without it."""
    given = document(streaming=(resident, depth))
    assert given.streaming
    streaming = given.streaming.model_copy(update={"placement": placement})
    text = export("transformers", given.model_copy(update={"streaming": streaming})).text
    names: dict[str, Any] = {"model": model, "inputs": inputs}
    exec(compile(text, "exported", "exec"), names)
    assert names["output"].tolist() == model.generate(**inputs).tolist()
    assert len(names["cache"].streamed) == 4 - round(4 * resident)
    assert names["cache"].prefetch_depth == depth
    if resident == 0.5:
        assert set(names["cache"].streamed) == STREAMED[placement]


def test_stock_entries_are_taken_by_generate(model: Any, inputs: dict[str, Any]) -> None:
    """Transformers' own cache of the exported name generates the same."""
    given = export("transformers", document(streaming=(1.0, 1)), flavor=Flavor.STOCK).settings
    assert model.generate(**inputs, **given).tolist() == model.generate(**inputs).tolist()
