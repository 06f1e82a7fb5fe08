"""Engines and budgets that mean nothing are refused before anything runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from autotune.core.errors import ConfigError, SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.types import EngineSemantics, StoreMode
from autotune.core.units import GIB
from autotune.sim.budget import Budget
from autotune.sim.config import CacheConfig


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"device_blocks": 0}, "at least one block"),
        ({"device_blocks": -3}, "at least one block"),
        ({"device_blocks": 2**31}, "a tier holds 0 to"),
        ({"host_blocks": -1}, "a tier holds 0 to"),
        ({"host_blocks": 10**30}, "a tier holds 0 to"),
        ({"disk_blocks": 5}, "what the host evicts"),
        ({"chunk_blocks": 0}, "chunks of several blocks"),
        ({"chunk_blocks": 2, "host_blocks": 4, "store_mode": StoreMode.LAZY}, "chunks of several blocks"),
        ({"chunk_blocks": 4, "host_blocks": 3}, "at least one of them"),
        ({"chunk_blocks": 4, "host_blocks": 8, "disk_blocks": 3}, "at least one of them"),
        ({"min_load_blocks": -1}, "not negative"),
        ({"itl_s": math.nan}, "not negative"),
        ({"itl_s": math.inf}, "not negative"),
    ],
)
def test_engine_without_meaning_is_refused(values: dict[str, Any], rule: str) -> None:
    """The error says which rule broke."""
    with pytest.raises(SimulationError, match=rule):
        CacheConfig(**{"device_blocks": 1, **values})


VLLM: dict[str, Any] = {"host_blocks": 4, "semantics": EngineSemantics.VLLM_0_32}


@pytest.mark.parametrize(
    ("values", "rule", "remedy"),
    [
        ({"host_blocks": 0}, "a device and a host tier", "--host-gib"),
        ({"disk_blocks": 9}, "a device and a host tier", "no disk"),
        ({"store_mode": StoreMode.LAZY}, "as they are computed", "--store eager"),
        ({"store_mode": StoreMode.EXCLUSIVE}, "as they are computed", "--store eager"),
        ({"chunk_blocks": 5}, "at least one of them", "smaller chunks"),
    ],
)
def test_what_vllm_does_not_have_is_refused(values: dict[str, Any], rule: str, remedy: str) -> None:
    """The vllm mode knows a device, a host that is offered blocks at once, and nothing else; the error says so."""
    with pytest.raises(SimulationError, match=rule) as caught:
        CacheConfig(1, **{**VLLM, **values})
    assert remedy in caught.value.remedy


def test_vllm_caches_full_blocks_only() -> None:
    """The vllm mode implies that partial blocks are left out, whatever was asked for."""
    assert CacheConfig(1, full_blocks=False, **VLLM).full_blocks
    assert not CacheConfig(1, host_blocks=4).full_blocks


def test_foresight_counts_where_there_is_a_tier() -> None:
    """An engine looks ahead only if a tier that exists does."""
    spec = PolicySpec("clairvoyant")
    assert CacheConfig(1, device_policy=spec).is_clairvoyant
    assert not CacheConfig(1, host_policy=spec).is_clairvoyant
    assert CacheConfig(1, 1, host_policy=spec).is_clairvoyant


def test_budget_in_blocks() -> None:
    """GiB are rounded down to whole blocks, and what is not given is no tier."""
    assert Budget(device_gib=1.0).in_blocks(GIB // 3) == (3, 0, 0)
    assert Budget(device_blocks=7, host_gib=0.5, disk_blocks=2).in_blocks(GIB // 4) == (7, 2, 2)
    assert Budget(device_blocks=1, host_gib=0.0).in_blocks(GIB) == (1, 0, 0)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(),
        Budget(host_blocks=4),
        Budget(device_gib=1.0, device_blocks=1),
        Budget(device_gib=math.nan),
        Budget(device_gib=math.inf),
        Budget(device_gib=-1.0),
        Budget(device_gib=0.001),
        Budget(device_blocks=1, host_gib=1e12),
        Budget(device_blocks=1, host_gib=0.001),
    ],
)
def test_budget_without_meaning_is_refused(budget: Budget) -> None:
    """A tier given twice, not at all, or of no size that holds a block is an error."""
    with pytest.raises(ConfigError):
        budget.in_blocks(GIB // 4)
