"""Shapes from config.json, and refusals of everything whose KV is counted otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.geometry import block_bytes, load_model
from autotune.geometry.fields import Fields
from autotune.geometry.hf_config import shape_of

Config = dict[str, object]

LLAMA: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
LLAMA_70B = LLAMA | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}
MISTRAL = LLAMA | {"model_type": "mistral", "vocab_size": 32768, "sliding_window": None}
MIXTRAL = MISTRAL | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
}
QWEN3 = LLAMA | {
    "model_type": "qwen3",
    "head_dim": 128,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "vocab_size": 151936,
    "sliding_window": None,
    "use_sliding_window": False,
}
LLAMA_2: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "torch_dtype": "float16",
}
SMALL = LLAMA | {
    "hidden_size": 2048,
    "head_dim": 64,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "tie_word_embeddings": True,
}
MIDDLE = SMALL | {"hidden_size": 3072, "head_dim": 128, "num_hidden_layers": 28, "num_attention_heads": 24}

# Each named model as its config.json has it.
PUBLISHED = {
    "llama-2-7b": LLAMA_2,
    "llama-3.1-8b": LLAMA,
    "llama-3.1-70b": LLAMA_70B,
    "llama-3.2-1b": SMALL,
    "llama-3.2-3b": MIDDLE,
    "mistral-7b-v0.3": MISTRAL,
    "mixtral-8x7b-v0.1": MIXTRAL,
    "qwen2.5-7b": QWEN2,
    "qwen2.5-72b": QWEN2
    | {
        "hidden_size": 8192,
        "intermediate_size": 29568,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
    },
    "qwen3-8b": QWEN3,
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_config_gives_the_named_shape(name: str) -> None:
    """The dimensions of a published config.json give the named model, its number of weights included."""
    assert shape_of(Fields("config.json", PUBLISHED[name]), name) == load_model(name)


@pytest.mark.parametrize(
    ("config", "kv_dtype", "tokens", "n_bytes"),
    [
        (LLAMA, None, 1, 131_072),
        (LLAMA, None, 4096, 536_870_912),
        (LLAMA, "fp8", 131_072, 8_589_934_592),
        (LLAMA_2, None, 1, 524_288),
        (LLAMA_2, None, 131_072, 68_719_476_736),
        (LLAMA_70B, None, 131_072, 42_949_672_960),
        (LLAMA_70B | {"num_key_value_heads": 64}, None, 131_072, 343_597_383_680),
        (LLAMA_70B | {"num_key_value_heads": 1}, None, 131_072, 5_368_709_120),
        (LLAMA_70B, "fp8_e4m3", 131_072, 21_474_836_480),
        (MIXTRAL, None, 262_144, 34_359_738_368),
    ],
)
def test_bytes_of_kv(config: Config, kv_dtype: str | None, tokens: int, n_bytes: int) -> None:
    """MHA, GQA and MQA in two element types give the known sizes."""
    assert block_bytes(shape_of(Fields("config.json", config), "m", kv_dtype), tokens) == n_bytes


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (LLAMA | {"model_type": "deepseek_v3", "kv_lora_rank": 512}, "kv_lora_rank"),
        (
            LLAMA | {"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 6},
            "sliding_window_p",
        ),
        (LLAMA | {"model_type": "gpt_oss", "layer_types": ["sliding_attention", "full_attention"]}, "layer_types"),
        (LLAMA | {"layer_types": ["full_attention"] * 31 + ["chunked_attention"]}, "layer_types"),
        (LLAMA | {"layer_types": "full_attention"}, "layer_types"),
        (LLAMA | {"model_type": "gemma3n_text", "num_kv_shared_layers": 15}, "num_kv_shared_layers"),
        (LLAMA | {"model_type": "jamba", "attn_layer_period": 8}, "attn_layer_period"),
        (LLAMA | {"model_type": "qwen3_next", "full_attention_interval": 4}, "full_attention_interval"),
        (LLAMA | {"model_type": "mamba", "state_size": 16}, "state_size"),
        (LLAMA | {"model_type": "llama4_text", "attention_chunk_size": 8192}, "attention_chunk_size"),
        (LLAMA | {"model_type": "falcon"}, "model_type"),
        ({key: value for key, value in LLAMA.items() if key != "model_type"}, "model_type"),
        (LLAMA | {"text_config": {"hidden_size": 1}}, "text_config"),
        (LLAMA | {"auto_map": {"AutoModel": "x.Y"}}, "auto_map"),
        (LLAMA | {"sliding_window": 4096}, "sliding_window"),
        (MISTRAL | {"sliding_window": 4096}, "sliding_window"),
        ({key: value for key, value in MISTRAL.items() if key != "sliding_window"}, "sliding_window"),
        (QWEN2 | {"use_sliding_window": True}, "sliding_window"),
        (LLAMA | {"num_local_experts": 8}, "num_local_experts"),
        (QWEN3 | {"num_experts": 128}, "num_experts"),
        ({key: value for key, value in MIXTRAL.items() if key != "num_experts_per_tok"}, "num_experts_per_tok"),
        (MIXTRAL | {"num_experts_per_tok": 9}, "num_experts_per_tok"),
        (LLAMA | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}, "quantization_config.kv_cache_scheme"),
        (LLAMA | {"torch_dtype": None}, "torch_dtype"),
        (LLAMA | {"torch_dtype": "int4"}, "torch_dtype"),
        (LLAMA | {"dtype": "float64"}, "dtype"),
        (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": 32.0}, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": True}, "num_hidden_layers"),
        (LLAMA | {"num_attention_heads": "32"}, "num_attention_heads"),
        (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads"),
        (LLAMA | {"hidden_size": 4097}, "head_dim"),
        ({key: value for key, value in LLAMA.items() if key != "vocab_size"}, "vocab_size"),
        (LLAMA | {"tie_word_embeddings": "no"}, "tie_word_embeddings"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config: Config, field: str) -> None:
    """A field that means another kind of KV, or that is missing or no dimension, is named in the refusal."""
    with pytest.raises(ConfigError, match=rf"^config\.json: {field}"):
        shape_of(Fields("config.json", config), "m")


def test_defaults_are_those_of_the_family() -> None:
    """Missing fields take the defaults of the model's own configuration class, not a common guess."""

    def without(config: Config, field: str) -> Config:
        return {key: value for key, value in config.items() if key != field}

    assert shape_of(Fields("c", without(LLAMA, "num_key_value_heads")), "m").n_kv_heads == 32
    assert shape_of(Fields("c", without(MISTRAL, "num_key_value_heads")), "m").n_kv_heads == 8
    assert shape_of(Fields("c", MISTRAL | {"num_key_value_heads": None}), "m").n_kv_heads == 32
    assert shape_of(Fields("c", without(QWEN3, "head_dim") | {"hidden_size": 2560}), "m").head_dim == 128
    assert shape_of(Fields("c", LLAMA | {"head_dim": None}), "m").head_dim == 128


def test_dtype_is_that_of_the_weights_unless_told() -> None:
    """The newer field name wins over the older, and an explicit KV type over both."""
    assert shape_of(Fields("c", LLAMA | {"dtype": "float32"}), "m").kv_element_bytes == 4
    fp8 = shape_of(Fields("c", LLAMA | {"quantization_config": {"kv_cache_scheme": {}}}), "m", "fp8_e5m2")
    assert (fp8.kv_dtype, fp8.kv_element_bytes) == ("fp8_e5m2", 1)
    with pytest.raises(ConfigError, match="KV element type must be a known one; got 'fp9'; did you mean 'fp8'"):
        shape_of(Fields("c", LLAMA), "m", "fp9")


def test_biases_and_norms_count() -> None:
    """Biases of attention and MLP add exactly their lengths to the number of weights."""
    plain = shape_of(Fields("c", LLAMA), "m").n_parameters
    attention = shape_of(Fields("c", LLAMA | {"attention_bias": True}), "m").n_parameters
    mlp = shape_of(Fields("c", LLAMA | {"mlp_bias": True}), "m").n_parameters
    assert attention - plain == 32 * (4096 + 1024 + 1024 + 4096)
    assert mlp - plain == 32 * (14336 + 14336 + 4096)


def test_path_of_file_or_folder(tmp_path: Path) -> None:
    """A config.json or its folder is read, and the model is called as published, else as its folder."""
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert load_model(str(folder)) == load_model(str(folder / "config.json"))
    assert load_model(str(folder)).name == "my-model"
    (folder / "config.json").write_text(json.dumps(LLAMA | {"_name_or_path": "org/model"}), encoding="utf-8")
    assert load_model(str(folder), kv_dtype="fp8").name == "org/model"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', "[" * 100_000, "\x00"])
def test_files_that_are_no_object(text: str, tmp_path: Path) -> None:
    """A file that holds no JSON object is one line that names it."""
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.json must") as caught:
        load_model(str(path))
    assert "\n" not in str(caught.value)


_ANYTHING: st.SearchStrategy[object] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just([]), st.just({})
)


@given(st.sampled_from([LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3]), st.data())
def test_any_replaced_field_is_counted_or_refused(config: Config, data: st.DataObject) -> None:
    """Whatever stands in a field, the result is a positive count or a ConfigError."""
    field = data.draw(st.sampled_from(sorted(config)))
    try:
        shape = shape_of(Fields("c", config | {field: data.draw(_ANYTHING)}), "m")
    except ConfigError:
        return
    assert shape.kv_bytes_per_token > 0
    assert shape.n_parameters > 0
