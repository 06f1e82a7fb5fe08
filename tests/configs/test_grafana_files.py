"""The dashboard and the alert rules name series that exist, with labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.daemon.http.series import COUNTERS, GAUGES, PREFIX
from autotune_policies.engines.vllm.series import DEFINITIONS, MetricKind

FOLDER = Path(str(files("autotune_configs") / "grafana"))
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
RULES = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
PROMTOOL = [path for path in [shutil.which("promtool")] if path]
# What a scrape adds to every series, and the plug-in's engine to its own.
SCRAPED = {"instance", "job", "engine", "model_name"}


def labels_of() -> dict[str, set[str]]:
    """Every series that the sidecar or the plug-in has, with its labels."""
    own = {PREFIX + name: set(series.labels) for name, series in (GAUGES | COUNTERS).items()}
    for definition in DEFINITIONS:
        suffixes = ("_bucket", "_sum", "_count") if definition.kind is MetricKind.HISTOGRAM else ("",)
        own |= {definition.name + suffix: {*definition.labels, "le"} for suffix in suffixes}
    return own


LABELS = labels_of()


def panels(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All panels, those inside rows included."""
    for panel in found:
        yield panel
        yield from panels(panel.get("panels", []))


def expressions() -> list[str]:
    """Every query of the dashboard and of the rules."""
    targets = [target["expr"] for panel in panels(DASHBOARD["panels"]) for target in panel.get("targets", [])]
    annotations = [each["expr"] for each in DASHBOARD["annotations"]["list"]]
    return [*targets, *annotations, *(rule["expr"] for rule in RULES)]


def named(expression: str) -> list[str]:
    """Series that an expression names."""
    return re.findall(r"\bkv_autotune_[a-z_]+", expression)


@pytest.mark.parametrize("expression", expressions())
def test_every_series_exists(expression: str) -> None:
    """A query names only series of the sidecar or of the plug-in, and at least one."""
    assert named(expression)
    assert set(named(expression)) <= set(LABELS)


@pytest.mark.parametrize("expression", expressions())
def test_every_label_exists(expression: str) -> None:
    """A query selects and groups only by labels that its series have."""
    known = set().union(*(LABELS[name] for name in named(expression))) | SCRAPED
    for name, inside in re.findall(r"\b(kv_autotune_[a-z_]+)\{([^}]*)\}", expression):
        assert set(re.findall(r"([a-z_]+)\s*(?:=~|!=|!~|=)", inside)) <= LABELS[name] | SCRAPED
    for inside in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression):
        assert set(re.findall(r"[a-z_]+", inside)) <= known


@pytest.mark.parametrize("expression", expressions())
def test_rates_are_taken_of_counters(expression: str) -> None:
    """Only what counts upwards is under rate or increase."""
    for name in re.findall(r"\b(?:rate|increase)\(\s*(kv_autotune_[a-z_]+)", expression):
        assert name.endswith(("_total", "_bucket", "_sum", "_count"))


def test_every_own_series_is_shown() -> None:
    """The dashboard or the rules use all of the sidecar's series but those that tell about its own server."""
    used = {name for expression in expressions() for name in named(expression)}
    used |= {name for text in [json.dumps(DASHBOARD["templating"])] for name in named(text)}
    unused = {PREFIX + name for name in GAUGES | COUNTERS} - used
    assert unused == {
        PREFIX + name
        for name in (
            "estimate",
            "findings",
            "http_answers_total",
            "policy_info",
            "signal_age_seconds",
            "signal_samples",
            "source_collect_seconds",
            "source_up",
            "target_epoch",
            "target_grade",
        )
    }


def test_panels_are_complete() -> None:
    """Every panel has a number of its own, a title and, unless it is a row, words that explain it."""
    found = list(panels(DASHBOARD["panels"]))
    assert len({panel["id"] for panel in found}) == len(found)
    assert all(panel["title"] for panel in found)
    assert all(panel["description"] for panel in found if panel["type"] != "row")


def test_panels_do_not_overlap() -> None:
    """No two panels take the same place, and none is wider than the page."""
    taken: set[tuple[int, int]] = set()
    for panel in panels(DASHBOARD["panels"]):
        at = panel["gridPos"]
        cells = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_dashboard_names_no_place_of_its_own() -> None:
    """Data source and sidecar are chosen by the reader: nothing in it points to one installation."""
    text = json.dumps(DASHBOARD)
    assert "http://" not in text
    assert {json.dumps(uid) for uid in re.findall(r'"uid": "([^"]*)"', text)} == {'"${datasource}"', '"kv-autotune"'}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    """Each alert has a severity, what it is, what it means and the remedy; plug-in alerts are named so."""
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert {"summary", "description", "remedy"} == set(rule["annotations"])
    assert rule["alert"].endswith("Plugin") == (PREFIX not in rule["expr"])


@pytest.mark.parametrize("promtool", PROMTOOL)
def test_rules_are_valid(promtool: str) -> None:
    """Prometheus itself takes the rules, where its checker is installed."""
    done = subprocess.run([promtool, "check", "rules", FOLDER / "alerts.yaml"], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
