"""The check of signatures and the reading of versions, held against modules of the standard library."""

from __future__ import annotations

import logging

import pytest

from autotune_policies.engines import vllm as plugin
from autotune_policies.engines.vllm.compat import CompatReport, VllmVersion
from autotune_policies.engines.vllm.seams import NEEDS, SEAMS, Feature, Seam, Use
from autotune_policies.engines.vllm.signatures import Finding, examine


def seam(use: Use, where: str, *forms: str, optional: bool = False) -> Seam:
    """A seam of some feature."""
    return Seam(Feature.POLICY, use, where, forms, optional)


def report(*off: Feature, version: str = "0.32.0") -> CompatReport:
    """A report in which one seam of each named feature does not fit."""
    seams = (Seam(feature, Use.CALLS, f"vllm.somewhere:Thing.{feature.name.lower()}", ("a b",)) for feature in Feature)
    findings = tuple(Finding(one, one.feature not in off, "(a, c)") for one in seams)
    return CompatReport(VllmVersion.parse(version), findings)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.32.0", (0, 32, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.33.1rc2.dev5+g12ab", (0, 33, 1)),
        ("1.0", (1, 0, 0)),
        ("dev", (0, 0, 0)),
    ],
)
def test_a_version_is_read_by_its_release(text: str, release: tuple[int, int, int]) -> None:
    """Names of builds and early releases do not matter, and what cannot be read is no release at all."""
    assert VllmVersion.parse(text).release == release


def test_versions_are_ordered_by_number() -> None:
    """0.100 comes after 0.33, and only releases that the tests run against count as tested."""
    assert VllmVersion.parse("0.100.0") > VllmVersion.parse("0.33.9")
    assert VllmVersion.parse("0.33.7+cu129").is_tested
    assert not VllmVersion.parse("0.34.0").is_tested


def test_a_method_that_is_called_must_take_what_is_given() -> None:
    """Further parameters are welcome if they have defaults; other names, or one that must be given, do not fit."""
    assert examine(seam(Use.CALLS, "queue:Queue.put", "item")).fits
    assert examine(seam(Use.CALLS, "queue:Queue.put", "thing", "item block")).fits
    assert not examine(seam(Use.CALLS, "queue:Queue.put", "thing")).fits
    assert not examine(seam(Use.CALLS, "json:JSONEncoder.encode", "")).fits


def test_a_method_that_is_overridden_must_have_a_known_form() -> None:
    """The engine may give ours any parameter that its own has, so one more than known does not fit."""
    assert examine(seam(Use.OVERRIDES, "queue:Queue.get", "block timeout")).fits
    misfit = examine(seam(Use.OVERRIDES, "queue:Queue.get", "block"))
    assert not misfit.fits
    assert str(misfit) == "Queue.get is (block, timeout), expected (block)"


def test_an_attribute_may_come_from_the_class_an_annotation_or_a_constructor() -> None:
    """All three ways are seen, by the first of several names, and an attribute that is nowhere does not fit."""
    assert examine(seam(Use.READS, "queue:Queue.old_name|maxsize")).found == "maxsize"
    assert examine(seam(Use.READS, "queue:LifoQueue.mutex")).fits
    assert examine(seam(Use.READS, "autotune_policies.engines.vllm.seams:Seam.where")).fits
    assert not examine(seam(Use.READS, "queue:Queue.capacity")).fits


def test_a_base_class_must_ask_for_nothing_unknown() -> None:
    """An abstract method that ours does not have would stop it from being made."""
    assert examine(seam(Use.SUBCLASSES, "collections.abc:Sized", "__len__ __iter__")).fits
    misfit = examine(seam(Use.SUBCLASSES, "collections.abc:Mapping", "__len__ __iter__"))
    assert not misfit.fits
    assert "__getitem__" in misfit.found


def test_what_is_absent_fits_only_where_it_is_optional() -> None:
    """A missing class, member or module is found out without anything being raised."""
    for where in ("queue:Stack.put", "queue:Queue.put_last", "no_such_module:Thing.act"):
        assert not examine(seam(Use.CALLS, where, "item")).fits
    assert examine(seam(Use.CALLS, "queue:Queue.put_last", "item", optional=True)).fits
    assert not examine(seam(Use.CALLS, "queue:Queue.put", "thing", optional=True)).fits


def test_a_feature_falls_alone_and_with_what_builds_on_it() -> None:
    """A misfit of the policy takes the manager and what needs that with it, and leaves the rest on."""
    assert report().features == frozenset(Feature)
    assert frozenset(Feature) - report(Feature.WORKER).features == {Feature.WORKER}
    fallen = {Feature.POLICY, Feature.MANAGER, Feature.TIERING, Feature.LAZY_STORE}
    assert frozenset(Feature) - report(Feature.POLICY).features == fallen


def test_the_message_names_what_does_not_fit_and_what_stands_in_its_place() -> None:
    """One line says what is used; each feature that is off has a line with the reason."""
    lines = report(Feature.CONNECTOR, version="0.99.0").message().splitlines()
    assert lines[0].startswith("vLLM 0.99.0 (not tested; tested are 0.24, 0.28, 0.32, 0.33): policy, manager")
    assert "connector is off, vLLM's own behaviour stands: Thing.connector is (a, c), expected (a, b)" in lines
    assert "lazy store is off, vLLM's own behaviour stands: needs connector, which is off" in lines


def test_every_feature_has_seams_and_every_need_is_one() -> None:
    """A feature without a seam would always be on."""
    assert {one.feature for one in SEAMS} == set(Feature)
    assert set(NEEDS) <= set(Feature)


def test_registering_where_there_is_no_engine_is_said_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    """The entry point is loaded by whatever process asks; a missing or changed engine must not stop that."""
    with caplog.at_level(logging.ERROR, logger="vllm.kv_autotune"):
        plugin.register()
        plugin.register()
    for record in caplog.records:
        assert "its module path works still" in record.getMessage()
