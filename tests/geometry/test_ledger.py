"""The ledger: exact bytes of published models and of every technique, as integers."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.geometry import Allocator, ModelGeometry, geometry_names, load_geometry, load_model, model_names
from autotune.geometry.attention import FullAttention
from autotune.geometry.budgets import fixed_budget, heavy_hitters, pyramid
from autotune.geometry.fields import Fields
from autotune.geometry.geometry import Weights
from autotune.geometry.latent import LatentAttention
from autotune.geometry.load import geometry_of
from autotune.geometry.paging import Paged, paged, shared_prefix_blocks
from autotune.geometry.precision import precision
from autotune.geometry.residence import max_sequences
from autotune.geometry.sharing import share_across
from autotune.geometry.sparse_reads import sparse_reads

K128 = 131_072


def uniform(n_layers: int, kv_heads: int, head_dim: int, dtype: str = "bfloat16") -> ModelGeometry:
    """A model with full attention in every layer."""
    layer = FullAttention(kv_heads, head_dim, head_dim, precision(dtype))
    return ModelGeometry("m", (layer,) * n_layers, kv_heads, head_dim, dtype, Weights(None, None, None))


def test_grouped_heads() -> None:
    """32 layers of 8 heads of 128 in BF16: per token, at 4,096 tokens, and per layer."""
    model = uniform(32, 8, 128)
    assert model.kv_bytes_per_token == 131_072
    assert model.kv_bytes(4096) == 536_870_912
    assert model.layer_bytes(4096) == (16_777_216,) * 32
    assert model.kv_bytes(4096, batch=3) == 3 * 536_870_912


def test_one_head_per_query_head() -> None:
    """32 layers of 32 heads of 128 in FP16 take 64 GiB at 128K."""
    model = uniform(32, 32, 128, "float16")
    assert model.kv_bytes_per_token == 524_288
    assert model.kv_bytes(K128) == 68_719_476_736 == 64 * 2**30


@pytest.mark.parametrize(("kv_heads", "n_bytes"), [(8, 42_949_672_960), (64, 343_597_383_680), (1, 5_368_709_120)])
def test_llama_70b_by_heads(kv_heads: int, n_bytes: int) -> None:
    """Llama 3.1 70B at 128K with its own heads, with as many as query heads, and with one."""
    assert uniform(80, kv_heads, 128).kv_bytes(K128) == n_bytes


def test_llama_70b_shared_and_quantised() -> None:
    """Sharing between two layers halves the bytes, and so does FP8."""
    model = load_geometry("llama-3.1-70b")
    assert model.kv_bytes(K128) == 42_949_672_960
    assert replace(model, layers=share_across(model.layers, 2)).kv_bytes(K128) == 21_474_836_480
    assert model.in_precision("fp8").kv_bytes(K128) == 21_474_836_480
    with pytest.raises(ConfigError, match="groups of at least 1; got 0"):
        share_across(model.layers, 0)


def test_keys_and_values_of_different_width() -> None:
    """Different widths of keys and values add up per head."""
    layer = FullAttention(4, 192, 128, precision("bfloat16"))
    assert layer.stored_bytes(10) == 4 * (192 + 128) * 2 * 10


def test_latent_attention_of_deepseek_v3() -> None:
    """One latent of 576 values per layer and token; packed in 656 bytes; decompressed into 128 heads."""
    model = load_geometry("deepseek-v3")
    assert model.kv_bytes_per_token == 70_272
    assert model.kv_bytes(K128) == 9_210_691_584
    assert model.in_precision("fp8_ds_mla").kv_bytes(K128) == 5_244_977_152
    assert load_geometry("deepseek-v3", kv_dtype="fp8_ds_mla").kv_bytes(K128) == 5_244_977_152
    assert model.decompressed().kv_bytes(K128) == 654_982_512_640


def test_toy_latent() -> None:
    """64 values in a latent of 12 are 16/3 as many."""
    heads = FullAttention(4, 8, 8, precision("bfloat16"))
    latent = LatentAttention(8, 4, precision("bfloat16"), decompressed=heads)
    assert heads.growth_bytes / latent.growth_bytes == Fraction(16, 3)
    with pytest.raises(ConfigError, match="layout of 512 latent and 64 position values; got 8 and 4"):
        latent.packed()


@pytest.mark.parametrize(
    ("name", "n_bytes"),
    [
        ("gemma-3-27b", 11_173_625_856),
        ("gemma-3-12b", 8_925_478_912),
        ("gemma-3-4b", 2_805_989_376),
        ("gpt-oss-120b", 4_836_556_800),
        ("mistral-7b-v0.1", 536_870_912),
    ],
)
def test_windows(name: str, n_bytes: int) -> None:
    """Windows hold their width, full layers all 128K."""
    assert load_geometry(name).kv_bytes(K128) == n_bytes


def test_transformers_keeps_a_token_less_in_a_window() -> None:
    """Between steps Transformers keeps one token less per window."""
    ours, theirs = (load_geometry("gpt-oss-120b", allocator=a) for a in (Allocator.VLLM, Allocator.TRANSFORMERS))
    assert ours.kv_bytes(K128) - theirs.kv_bytes(K128) == 18 * 2048
    assert ours.kv_bytes(100) == theirs.kv_bytes(100)


def test_shared_layers_of_gemma_3n() -> None:
    """Fifteen layers without KV of their own; what they would keep is still known."""
    model = load_geometry("gemma-3n-e4b")
    assert model.kv_bytes(32_768) == 285_212_672
    own = tuple(getattr(layer, "own", layer) for layer in model.layers)
    assert replace(model, layers=own).kv_bytes(32_768) == 499_122_176


@pytest.mark.parametrize(
    ("allocator", "state_bytes"),
    [(Allocator.TRANSFORMERS, 77_856_768), (Allocator.VLLM_FLOAT32, 77_266_944), (Allocator.VLLM, 39_518_208)],
)
def test_qwen3_next(allocator: Allocator, state_bytes: int) -> None:
    """Twelve attention layers grow, 36 states do not."""
    model = load_geometry("qwen3-next-80b-a3b", allocator=allocator)
    assert model.fixed_bytes == state_bytes
    assert model.kv_bytes(K128) == 3_221_225_472 + state_bytes
    assert model.kv_bytes_per_token is None
    assert uniform(48, 2, 256).kv_bytes(K128) == 12_884_901_888


@pytest.mark.parametrize(
    ("allocator", "state_bytes"), [(Allocator.TRANSFORMERS, 16_515_072), (Allocator.VLLM, 8_716_288)]
)
def test_jamba(allocator: Allocator, state_bytes: int) -> None:
    """Four attention layers of 32; Mixtral has attention in all of its 32."""
    model = load_geometry("jamba-v0.1", allocator=allocator)
    assert model.kv_bytes(262_144) == 4_294_967_296 + state_bytes
    assert model.fixed_bytes == state_bytes
    assert load_geometry("mixtral-8x7b-v0.1").kv_bytes(262_144) == 34_359_738_368


def test_compressed_attention_of_deepseek_v4() -> None:
    """2 windows, 21 sparse and 20 heavily compressed layers, in BF16 and in FP8."""
    model = load_geometry("deepseek-v4-flash")
    kinds = [layer.kind.value for layer in model.layers]
    assert [kinds.count(k) for k in dict.fromkeys(kinds)] == [2, 21, 20]
    assert model.kv_bytes(K128) == 907_411_456
    assert load_geometry("deepseek-v4-flash", kv_dtype="fp8").kv_bytes(K128) == 507_874_304


def test_deepseek_v2_against_67b() -> None:
    """Latent attention takes 82.24 % less per token than the dense model before it, at equal precision."""
    new, old = load_geometry("deepseek-v2").kv_bytes_per_token, uniform(95, 8, 128).kv_bytes_per_token
    assert (new, old) == (69_120, 389_120)
    assert round(100 * (1 - Fraction(69_120, 389_120)), 2) == Fraction("82.24")


def test_sparse_reads() -> None:
    """Quest stores all and a sixteenth more, and reads three sixteenths."""
    share = sparse_reads(32_768, 4_096, 16)
    assert (share.stored_share, share.read_share) == (Fraction("1.0625"), Fraction("0.1875"))
    assert sparse_reads(100, 4_096).read_share == 1
    with pytest.raises(ConfigError, match="at least 1 token"):
        sparse_reads(0, 1)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("int4_g64", "4.5"),
        ("int4_g32", "5"),
        ("kivi2_g32", "3"),
        ("kivi2_g64", "2.5"),
        ("nvfp4", "4.5"),
        ("mxfp4", "4.25"),
    ],
)
def test_bits_per_value(name: str, bits: str) -> None:
    """A value takes its own bits and its share of the metadata."""
    assert precision(name).bits_per_value == Fraction(bits)


def test_quantised_llama_8b() -> None:
    """KIVI with two bits keeps 128 tokens in BF16; FP8 halves."""
    model = load_geometry("llama-3.1-8b")
    assert model.in_precision("kivi2_g32").kv_bytes(K128) == 3_234_856_960
    assert model.in_precision("fp8").kv_bytes(K128) == 8_589_934_592
    with pytest.raises(ConfigError, match="known one; got 'int3'"):
        model.in_precision("int3")
    with pytest.raises(ConfigError, match="layout of latent attention; got a layer of full_attention"):
        model.in_precision("fp8_ds_mla")


def test_eviction_budgets() -> None:
    """H2O, SnapKV and PyramidKV keep so many tokens of Llama 3.1 8B."""
    model = load_geometry("llama-3.1-8b")
    assert model.kv_bytes(heavy_hitters(K128, 0.1, 0.1)) == 3_435_921_408
    assert model.kv_bytes(fixed_budget(K128, 2048)) == 268_435_456
    kept = pyramid(32, 2048, 32, 20)
    assert (kept[0], kept[-1], sum(kept)) == (3964, 151, 65_840)
    with pytest.raises(ConfigError, match=r"between 0 and 1 together; got 1\.2"):
        heavy_hitters(10, 0.6, 0.6)
    with pytest.raises(ConfigError, match="at least 2 layers"):
        pyramid(1, 2048, 32, 20)


def test_paging_waste() -> None:
    """4,097 tokens waste 15 slots of their 257th block."""
    assert paged(4097, 16) == Paged(257, 15)
    assert load_geometry("llama-3.1-8b").kv_bytes(paged(4097, 16).wasted_tokens) == 1_966_080
    assert load_geometry("llama-3.1-8b").block_bytes(16) == 16 * 131_072
    with pytest.raises(ConfigError, match="a block at least 1"):
        paged(1, 0)


def test_shared_prefix() -> None:
    """Eight requests share the full blocks of 1,000 tokens."""
    assert shared_prefix_blocks(1000, 1500, 8, 16) == 318
    assert 8 * paged(1500, 16).blocks == 752
    with pytest.raises(ConfigError, match="no more tokens than each"):
        shared_prefix_blocks(2, 1, 1, 16)


@pytest.mark.parametrize(
    ("p", "sequences"), [("1", 4), ("0.8", 5), ("0.5", 8), ("0.4", 10), ("0.3", 13), ("0.2", 20), ("0.1", 40)]
)
def test_offload(p: str, sequences: int) -> None:
    """Sequences of 10 in memory of 40, by the share that stays, from text and from a float alike."""
    assert max_sequences(40, 10, p) == sequences == max_sequences(40, 10, float(p))


def test_offload_is_exact() -> None:
    """3 / (0.1 * 3) is 10, of which floating-point numbers make 9; wrong shares are refused."""
    assert 3 // (0.1 * 3) == 9
    assert max_sequences(3, 3, 0.1) == 10
    assert max_sequences(40, 10, 0) is None
    assert max_sequences(40, 10, 0, buffer_bytes=3) == 13
    with pytest.raises(ConfigError, match="p is between 0 and 1"):
        max_sequences(40, 10, 1.1)


def test_ranks() -> None:
    """Heads are split over ranks, at least one on each; latent vectors and compressed entries are on every rank."""
    llama, latent = load_geometry("llama-3.1-70b"), load_geometry("deepseek-v3")
    assert llama.per_rank(8).kv_bytes(K128) * 8 == llama.kv_bytes(K128)
    assert llama.per_rank(16).kv_bytes(K128) * 8 == llama.kv_bytes(K128)
    assert latent.per_rank(8).kv_bytes(K128) == latent.kv_bytes(K128)
    with pytest.raises(ConfigError, match="at least 1 rank"):
        llama.per_rank(0)


def test_unknown_types_of_layers_are_named() -> None:
    """A type of layer that a family does not know is named with its place, and so is an unknown family."""
    config: dict[str, object] = {
        "model_type": "qwen3_next",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "torch_dtype": "bfloat16",
    }
    with pytest.raises(
        ConfigError, match=r"layer_types must be .* but for layer 1; got 'moon_attention'; qwen3_next has"
    ):
        geometry_of(Fields("c", config | {"layer_types": ["full_attention", "moon_attention"]}), "m")
    with pytest.raises(ConfigError, match=r"model_type must be .*; got 'rwkv'; .*known: deepseek_v2"):
        geometry_of(Fields("c", config | {"model_type": "rwkv"}), "m")
    llama = config | {"model_type": "llama", "kv_lora_rank": 8}
    with pytest.raises(ConfigError, match="kv_lora_rank means multi-head latent attention"):
        geometry_of(Fields("c", llama), "m")
    with pytest.raises(ConfigError, match="text_config: model_type must"):
        geometry_of(Fields("c", {"model_type": "x", "text_config": {"model_type": "rwkv"}}), "m")


def test_published_files_of_several_parts_are_read() -> None:
    """Gemma 3 4B as published: a text part that leaves out what its class has by default."""
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    config: dict[str, object] = {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": {"x": 1},
        "torch_dtype": "bfloat16",
    }
    assert geometry_of(Fields("c", config), "m").kv_bytes(K128) == 2_805_989_376


def test_published_deepseek_v3_is_read() -> None:
    """Code of its own, quantised weights and a layer that predicts further tokens do not change what is kept."""
    config: dict[str, object] = {
        "model_type": "deepseek_v3",
        "auto_map": {"AutoConfig": "x.Y"},
        "quantization_config": {"quant_method": "fp8"},
        "num_nextn_predict_layers": 1,
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "torch_dtype": "bfloat16",
    }
    assert geometry_of(Fields("c", config), "m").kv_bytes(K128) == 9_210_691_584
    for field in ("kv_lora_rank", "qk_rope_head_dim", "v_head_dim"):
        with pytest.raises(ConfigError, match=field):
            geometry_of(Fields("c", {k: v for k, v in config.items() if k != field}), "m")
    with pytest.raises(ConfigError, match="deepseek_v4 is counted as vLLM allocates it; got transformers"):
        load_geometry("deepseek-v4-flash", allocator=Allocator.TRANSFORMERS)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"compress_ratios": [0, 8]}, "compress_ratios must be among 0, 4, 128, but for layer 1; got 8"),
        ({"compress_ratios": [0]}, "compress_ratios must give each of 2 layers"),
        ({"compress_ratios": None, "layer_types": ["full_attention"] * 2}, "but for layer 0; got 'full_attention'"),
    ],
)
def test_unknown_ratios_are_named(changes: dict[str, object], rule: str) -> None:
    """A ratio of compression without a known kind of layer is no guess."""
    config: dict[str, object] = {
        "model_type": "deepseek_v4",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 64,
        "index_head_dim": 16,
        "sliding_window": 8,
        "torch_dtype": "bfloat16",
    }
    with pytest.raises(ConfigError, match=rule):
        geometry_of(Fields("c", config | changes), "m")


@pytest.mark.parametrize("name", model_names())
def test_both_views_of_a_model_agree(name: str) -> None:
    """What tuning takes per token is what the geometry says, and the weights that a token uses are the same."""
    geometry, shape = load_geometry(name), load_model(name)
    assert geometry.kv_bytes_per_token == shape.kv_bytes_per_token
    assert geometry.weights.active == shape.n_parameters
    assert load_geometry(name, kv_dtype="fp8").kv_bytes_per_token == load_model(name, kv_dtype="fp8").kv_bytes_per_token


@pytest.mark.parametrize(("name", "field"), [("deepseek-v3", "kv_lora_rank"), ("mistral-7b-v0.1", "sliding_window")])
def test_tuning_names_what_it_cannot_count(name: str, field: str) -> None:
    """A model that comes along for planning only is refused by the field that tells it apart."""
    with pytest.raises(ConfigError, match=f"model {name}: {field}"):
        load_model(name)


_ANYTHING: st.SearchStrategy[object] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just([]), st.just([[]]), st.just({})
)
_FACTS = [path for path in (resources.files("autotune_configs") / "models").iterdir() if path.name.endswith(".json")]
_CONFIGS = [json.loads(path.read_text("utf-8"))["config"] for path in _FACTS]


@given(st.sampled_from(_CONFIGS), st.sampled_from(list(Allocator)), st.data())
def test_any_replaced_field_is_counted_or_refused(
    config: dict[str, object], allocator: Allocator, data: st.DataObject
) -> None:
    """Whatever stands in a field of a published file, the result is a count or a ConfigError."""
    field = data.draw(st.sampled_from(sorted(config)))
    try:
        model = geometry_of(Fields("c", config | {field: data.draw(_ANYTHING)}), "m", allocator=allocator)
    except ConfigError:
        return
    assert model.kv_bytes(1000) > 0
    assert model.kv_bytes(1000) <= model.kv_bytes(1001)


@given(st.sampled_from(geometry_names()), st.integers(1, 300_000), st.sampled_from(["bfloat16", "fp8", "int4_g64"]))
def test_growth_is_bounded_by_the_bytes_per_token(name: str, context: int, dtype: str) -> None:
    """One more token never takes fewer bytes, and in a long context on average what the geometry says."""
    model = load_geometry(name, kv_dtype=dtype)
    assert model.kv_bytes(context + 1) >= model.kv_bytes(context)
    far = 262_144
    grown = model.kv_bytes(far + 1024) - model.kv_bytes(far)
    assert grown == 1024 * model.growth_bytes
