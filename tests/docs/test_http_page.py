"""The page about the HTTP interface says what the code says."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from autotune.daemon.http.endpoints import ORDERS, READS, Access
from autotune.daemon.http.series import COUNTERS, GAUGES, PREFIX

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/http.md").read_text(encoding="utf-8")
NEEDED = {Access.OPEN: "never", Access.READ: "beyond loopback"}
MAX_PICTURE_BYTES = 300_000


def summary(call: object) -> str:
    """First line of a docstring."""
    return (inspect.getdoc(call) or "").splitlines()[0]


@pytest.mark.parametrize("read", READS, ids=[read.path for read in READS])
def test_reads_are_documented(read: object) -> None:
    """Every GET stands in the table with who needs the token and what it answers."""
    (found,) = [each for each in READS if each is read]
    assert f"| `GET {found.path}` | {NEEDED[found.access]} | {summary(found.call)} |" in PAGE


@pytest.mark.parametrize("order", ORDERS, ids=[order.path for order in ORDERS])
def test_orders_are_documented(order: object) -> None:
    """Every POST stands in the table; it always needs the token."""
    (found,) = [each for each in ORDERS if each is order]
    assert f"| `POST {found.path}` | always | {summary(found.call)} |" in PAGE


@pytest.mark.parametrize("name", sorted(GAUGES | COUNTERS))
def test_series_are_documented(name: str) -> None:
    """Every series stands in the table with its kind, labels and meaning."""
    series = (GAUGES | COUNTERS)[name]
    kind = "counter" if name in COUNTERS else "gauge"
    labels = ", ".join(f"`{label}`" for label in series.labels)
    assert f"| `{PREFIX}{name}` | {kind} | {labels} | {series.meaning} |" in PAGE


def test_no_other_series_is_documented() -> None:
    """The table has as many series as there are."""
    assert PAGE.count(f"| `{PREFIX}") == len(GAUGES | COUNTERS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_are_small(scheme: str) -> None:
    """The pictures of the page are there and small enough for a repository."""
    assert (ROOT / f"docs/images/sidecar-{scheme}.png").stat().st_size < MAX_PICTURE_BYTES
