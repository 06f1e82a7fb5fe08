"""The learned policy as a document: exact, readable, and refused where its parts do not agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.errors import PolicyError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import ClassHazardDocument, ClassHazardSection, parse, policy_spec
from autotune.core.policy.reuse_tables import DECIMALS, to_score, to_whole
from autotune.core.reuse import HorizonModel, ReuseModel, classify, gain_table, score_rows
from autotune.core.types import Admission, RankForm, Tier
from autotune.core.yaml_rows import number
from autotune.export import render
from autotune.testing.documents import example_fixed_key_document, example_learned_document, example_priced_document
from autotune.testing.reuse import feature_rows, reuse_models

DOCUMENT = example_learned_document()


def written(model: ReuseModel) -> ReuseModel:
    """The model after it was written to a document and read back."""
    section = ClassHazardSection.of(model, device_age_s=1.0, rerank_s=1.0)
    document = parse(render(DOCUMENT.model_copy(update={"class_hazard": section})))
    assert isinstance(document, ClassHazardDocument)
    return document.class_hazard.model()


def same(first: HorizonModel, second: HorizonModel) -> bool:
    """Whether two horizons have equal bits."""
    return (
        (first.horizon_s, first.base, first.calibration) == (second.horizon_s, second.base, second.calibration)
        and len(first.tables) == len(second.tables)
        and all(
            (a.first, a.second, a.first_cuts, a.second_cuts) == (b.first, b.second, b.first_cuts, b.second_cuts)
            and a.scores.dtype == b.scores.dtype
            and np.array_equal(a.scores, b.scores)
            for a, b in zip(first.tables, second.tables, strict=True)
        )
    )


@settings(max_examples=25)
@given(st.data())
def test_a_model_survives_to_the_bit(data: st.DataObject) -> None:
    """Scores, cuts, classes, curves and gains of a written and read model are those of the model itself."""
    model = data.draw(reuse_models())
    rows = data.draw(feature_rows(model))
    again = written(model)
    assert same(model.near, again.near)
    assert same(model.far, again.far)
    assert (model.near_cuts, model.far_cuts, model.edges_s) == (again.near_cuts, again.far_cuts, again.edges_s)
    assert model.features == again.features
    assert np.array_equal(model.hazard_per_s, again.hazard_per_s)
    assert np.array_equal(score_rows(model.near, rows), score_rows(again.near, rows))
    assert np.array_equal(classify(model, rows), classify(again, rows))
    assert np.array_equal(gain_table(model, 30.0), gain_table(again, 30.0))


@given(st.integers(-(2**52), 2**52))
def test_thirteen_decimals_hold_a_score(whole: int) -> None:
    """Every whole number of units up to 4096 in log odds comes back from its text."""
    assert to_whole(float(number(to_score(whole), DECIMALS))) == whole


def test_text_can_be_read_by_people() -> None:
    """Features say what they are, scores for which values they stand, rows of curves for which class."""
    text = render(DOCUMENT)
    assert "- gap_s  # seconds that the run lay idle before this request" in text
    assert "- 0.5  # > 4096" in text
    assert "- [0.75, -0.5]  # stop_code 1.5 … 2.5" in text
    assert "]  # class 15" in text
    assert max(map(len, text.partition("class_hazard:\n")[2].splitlines())) <= 130


def test_prices_of_ranks_survive_and_say_their_unit() -> None:
    """Measured prices are read back as they were written, with their unit; a document without them has no such key."""
    priced = example_priced_document()
    text = render(priced)
    assert parse(text) == priced
    assert "    device_s_per_block_s: 0.0004" in text
    assert "seconds saved per second of keeping one block" in " ".join(text.split())
    assert "device_s_per_block_s" not in render(DOCUMENT)
    assert parse(render(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"host_s_per_block_s": None}, "a price for each tier that the rule governs, and for no other; got device"),
        ({"device_s_per_block_s": None, "host_s_per_block_s": None}, "a price of at least one tier"),
        ({"device_s_per_block_s": -1.0}, "device_s_per_block_s must be at least 0"),
        ({"moments": 0}, "moments must be at least 1"),
        ({"disk_s_per_block_s": 1.0}, "disk_s_per_block_s is not a known name"),
    ],
)
def test_prices_that_mean_nothing_are_refused(change: dict[str, object], message: str) -> None:
    """Prices belong to the governed tiers, are not negative, and were measured at some moment."""
    tree = yaml.safe_load(render(example_priced_document()))
    tree["class_hazard"]["prices"].update(change)
    with pytest.raises(PolicyError, match=message):
        parse(yaml.safe_dump(tree))


def test_spec_names_the_rule_and_its_knobs() -> None:
    """Both tiers of the document evict by the class-hazard rule, each with its own admission."""
    device, host = (policy_spec(DOCUMENT, tier) for tier in (Tier.DEVICE, Tier.HOST))
    assert device == PolicySpec.of("class_hazard", rerank_s=5.0, copy_factor=1.0, admission=0.0)
    assert host == PolicySpec.of("class_hazard", rerank_s=5.0, copy_factor=1.0, admission=1.0)


def test_a_fixed_key_needs_no_tick() -> None:
    """Written and read back it is the same, says no tick, and no tick ever comes."""
    section = DOCUMENT.class_hazard.model_copy(update={"form": RankForm.FIXED_KEY, "rerank_s": None})
    document = DOCUMENT.model_copy(update={"class_hazard": section})
    text = render(document)
    assert "form: fixed_key" in text
    assert "rerank_s:" not in text
    assert parse(text) == document
    assert section.tick_s >= 1e9
    assert policy_spec(document, Tier.HOST) == PolicySpec.of(
        "class_hazard", fixed_key=1.0, copy_factor=1.0, admission=1.0
    )


def test_prices_of_a_fixed_key_are_keys() -> None:
    """They are written and read back; neither form takes prices of the other, nor any both."""
    document = example_fixed_key_document()
    assert parse(render(document)) == document
    ranks = {"device_s_per_block_s": 4e-4, "host_s_per_block_s": 2e-4, "moments": 64, "measured_on": "a test"}
    tree = yaml.safe_load(render(document))
    for prices, message in (
        (ranks, "prices are keys under form fixed_key"),
        (tree["class_hazard"]["prices"] | ranks, "prices are ranks or keys; got both"),
        ({"device_key_s": -600.0, "moments": 1, "measured_on": ""}, "a price for each tier that the rule governs"),
        ({"device_key_s": -1e10, "moments": 1, "measured_on": ""}, "device_key_s must be at least"),
    ):
        with pytest.raises(PolicyError, match=message):
            parse(yaml.safe_dump(tree | {"class_hazard": tree["class_hazard"] | {"prices": prices}}))
    by_rank = yaml.safe_load(render(example_priced_document()))
    by_rank["class_hazard"]["prices"] = tree["class_hazard"]["prices"]
    with pytest.raises(PolicyError, match="prices are ranks under form hazard"):
        parse(yaml.safe_dump(by_rank))


def test_older_readers_refuse_it_and_plain_kinds_stay_old() -> None:
    """The kind asks for the second reader; the other kinds still ask for the first."""
    assert DOCUMENT.min_reader == 2
    tree = _tree()
    tree["min_reader"] = 1
    with pytest.raises(PolicyError, match="min_reader must be at least 2"):
        parse(yaml.safe_dump(tree))


def _tree() -> Any:
    return yaml.safe_load(render(DOCUMENT))


def _first_effect(tree: Any) -> Any:
    return tree["class_hazard"]["near"]["main_effects"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["tiers"]["host"].update(policy="lru", admission="all"), None),
        (lambda t: t["tiers"]["device"].update(policy="lru"), None),
        (
            lambda t: [tier.update(policy="lru", admission="all") for tier in t["tiers"].values() if tier],
            "governs the device, the host or both, and no other tier; got none",
        ),
        (lambda t: t.update(rank={"host": None}), "kind 'class_hazard' has no section 'rank'"),
        (lambda t: t.update(kind="lru", min_reader=1), "class_hazard is not a known name"),
        (lambda t: _first_effect(t).update(feature="deph_tokens"), "did you mean 'depth_tokens'"),
        (lambda t: _first_effect(t).update(cuts=[4096.0, 512.0]), "cuts of a table must ascend"),
        (lambda t: _first_effect(t).update(cuts=[512.0]), "one score more than cuts in each direction; got 3 scores"),
        (lambda t: _first_effect(t).update(scores=[0.0, 5000.0, 0.0]), "must be at most 4096"),
        (lambda t: _first_effect(t).update(feature="priority"), "only features that class_hazard.features lists"),
        (lambda t: _first_effect(t).update(feature="gap_s"), "one table per feature and pair; got two for gap_s"),
        (lambda t: t["class_hazard"]["near"]["pairs"][0].update(columns="stop_code"), "needs two"),
        (lambda t: t["class_hazard"].update(near_cuts=[0.0, -1.0, 1.0]), "classes must ascend"),
        (lambda t: t["class_hazard"]["edges_s"].reverse(), "edges_s must ascend"),
        (lambda t: t["class_hazard"]["edges_s"].pop(), "class_hazard.edges_s"),
        (lambda t: t["class_hazard"]["hazard_per_s"].pop(), "class_hazard.hazard_per_s"),
        (lambda t: t["class_hazard"]["hazard_per_s"][3].__setitem__(7, -1.0), "must be at least 0.0"),
        (lambda t: t["class_hazard"].update(rerank_s=0.0), "class_hazard.rerank_s must be greater than 0.0"),
        (lambda t: t["class_hazard"].pop("rerank_s"), "rerank_s must be given under form hazard"),
        (lambda t: t["class_hazard"].update(form="fixed_key"), "rerank_s belongs to form hazard"),
        (lambda t: t["class_hazard"].update(form="fixed"), "class_hazard.form must be one of"),
        (lambda t: t["class_hazard"].pop("form"), None),
        (lambda t: t["class_hazard"].update(copy_factor=1.5), "class_hazard.copy_factor must be at most 1.0"),
        (
            lambda t: t["class_hazard"]["far"].update(calibration={"scores": [0.0, 1.0], "probabilities": [0.5, 0.4]}),
            "probabilities of a calibration must not fall",
        ),
        (
            lambda t: t["class_hazard"]["far"].update(calibration={"scores": [0.0], "probabilities": [0.5, 0.6]}),
            "one probability per score",
        ),
    ],
)
def test_parts_must_agree(change: Any, message: str | None) -> None:
    """A change that leaves the document whole is read; any other is refused with the rule that it breaks."""
    tree = _tree()
    change(tree)
    if message is None:
        parse(yaml.safe_dump(tree))
        return
    with pytest.raises(PolicyError) as caught:
        parse(yaml.safe_dump(tree))
    assert message in str(caught.value)


def test_disk_is_not_learned() -> None:
    """The rule is for the device and the host; a disk tier that asks for it is refused."""
    tree = _tree()
    tree["budgets"]["disk_bytes"] = 1
    tree["tiers"]["disk"] = {"policy": "class_hazard", "admission": "all"}
    with pytest.raises(PolicyError, match="no other tier; got device, host, disk"):
        parse(yaml.safe_dump(tree))


def test_another_kind_cannot_use_the_rule() -> None:
    """A tier that says class_hazard in a document without a model is refused."""
    tree = _tree()
    del tree["class_hazard"]
    tree.update(kind="lru", min_reader=1)
    with pytest.raises(PolicyError, match="'class_hazard' only in a policy of that kind"):
        parse(yaml.safe_dump(tree))
    assert DOCUMENT.tiers.host is not None
    assert DOCUMENT.tiers.host.admission is Admission.MARGINAL
