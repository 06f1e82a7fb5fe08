from __future__ import annotations

from datetime import UTC, datetime

import pytest

from autotune.core.errors import PolicyError
from autotune.core.policy import Budgets, Lease, RankDocument, Tiers
from autotune.testing.documents import example_document, example_learned_document
from autotune_policies.engines.live.matching import EngineFacts, check_match

ENGINE = EngineFacts("vllm", "0.32.0+cpu", ("meta-llama/Llama-3.1-8B", "chat"), kv_bytes_per_token=131_072)


def changed(**fingerprint: object) -> RankDocument:
    """The example document with another fingerprint."""
    document = example_document()
    return document.model_copy(update={"fingerprint": document.fingerprint.model_copy(update=fingerprint)})


@pytest.mark.parametrize("name", ["llama-3.1-8b", "meta-llama/Llama-3.1-8B", "/models/llama-3.1-8b/", "chat", "CHAT"])
def test_a_model_matches_by_its_bare_name(name: str) -> None:
    """Owner, folders and capitals do not count, and the name it is served under is as good."""
    check_match(changed(model=name), ENGINE)


@pytest.mark.parametrize(
    ("fingerprint", "word"),
    [
        ({"model": "qwen3-8b"}, "model"),
        ({"kv_bytes_per_token": 65_536}, "bytes of KV"),
        ({"engines": ("vllm>=0.33",)}, "0.33"),
        ({"engines": ("sglang",)}, "sglang"),
    ],
)
def test_another_engine_is_refused_with_what_differs(fingerprint: dict[str, object], word: str) -> None:
    """Another model, other bytes per token, another version or another engine is an error that names it."""
    with pytest.raises(PolicyError, match=word):
        check_match(changed(**fingerprint), ENGINE)


def test_an_unreadable_version_fits_only_a_policy_for_any() -> None:
    """An engine built from a branch matches no range, and an empty list of engines."""
    engine = EngineFacts("vllm", "dev", ENGINE.model_names, 131_072)
    check_match(changed(engines=()), engine)
    check_match(changed(engines=("vllm",)), engine)
    with pytest.raises(PolicyError, match="vllm dev"):
        check_match(changed(engines=("vllm>=0.24",)), engine)


def test_base_only_needs_an_engine_without_adapters() -> None:
    """Keys do not tell an adapter's blocks apart, so such a policy is refused where adapters are served."""
    check_match(changed(adapter_rule="base_only"), ENGINE)
    with_adapters = EngineFacts("vllm", "0.32.0", ("chat",), 131_072, serves_adapters=True)
    check_match(changed(model="chat"), with_adapters)
    with pytest.raises(PolicyError, match="adapters"):
        check_match(changed(model="chat", adapter_rule="base_only"), with_adapters)


def test_what_the_engine_cannot_know_is_not_held_against_it() -> None:
    """Unknown facts are listed for a warning and refuse nothing; known ones still count."""
    engine = EngineFacts("vllm", "0.32.0")
    assert engine.unknown == ("model", "KV bytes per token")
    assert ENGINE.unknown == ()
    check_match(changed(model="anything", kv_bytes_per_token=1), engine)


def test_a_policy_without_host_rules_is_refused() -> None:
    """An offloading engine cannot use a document that has no host tier."""
    document = example_document()
    without = document.model_copy(update={"tiers": Tiers(), "budgets": Budgets(device_bytes=1), "rank": document.rank})
    with pytest.raises(PolicyError, match="host tier"):
        check_match(without, ENGINE)


def test_a_learned_policy_is_taken_as_any_other() -> None:
    """The learned rule is known here; what must fit is the engine."""
    check_match(example_learned_document(), ENGINE)


def test_the_fallback_of_a_trial_must_fit_too() -> None:
    """A trial whose fallback is for another model is refused before it starts."""
    lease = Lease(expires_at=datetime(2026, 2, 1, tzinfo=UTC), renew_s=60.0, fallback=changed(model="qwen3-8b"))
    with pytest.raises(PolicyError, match=r"lease\.fallback.*qwen3-8b"):
        check_match(example_document().model_copy(update={"lease": lease}), ENGINE)
