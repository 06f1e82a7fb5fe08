"""A setting and the policy that it stands for."""

from __future__ import annotations

import pytest

from autotune.core.eviction import PolicySpec
from autotune.core.types import Admission
from autotune.search.setting import LRU_SETTING, Setting


@pytest.mark.parametrize(
    "setting", [LRU_SETTING, Setting(admission=Admission.MARGINAL, cost_weight=1.0, tau_turnovers=9.0)]
)
def test_lambda_one_is_lru(setting: Setting) -> None:
    """With λ = 1 the other knobs of the rank rule do not matter, and the policy is LRU itself."""
    assert setting.is_lru
    assert setting.changes_nothing
    assert setting.policy_spec(100.0) == PolicySpec("lru")


def test_two_hit_admission_is_not_lru() -> None:
    """Even with λ = 1 a tier that refuses blocks is another policy."""
    setting = Setting(admission=Admission.TWO_HIT)
    assert not setting.is_lru
    assert dict(setting.policy_spec(1.0).params)["admission"] == 2.0


def test_turnovers_become_seconds() -> None:
    """Time scales are multiples of the measured turnover."""
    setting = Setting(lambda_recency=0.25, tau_turnovers=2.0, half_life_turnovers=8.0, ghost_ratio=3.0, cost_weight=0.5)
    assert setting.policy_spec(30.0) == PolicySpec.of(
        "rank", lambda_recency=0.25, tau_s=60.0, half_life_s=240.0, cost_weight=0.5, ghost_ratio=3.0, admission=0.0
    )


@pytest.mark.parametrize(
    "setting",
    [Setting(resident_frac=0.3), Setting(min_load_tokens=64), Setting(chunk_blocks=2), Setting(prefetch_depth=0)],
)
def test_other_knobs_change_the_engine(setting: Setting) -> None:
    """LRU with another split, load length, chunk or depth is LRU, but not the engine as it was."""
    assert setting.is_lru
    assert not setting.changes_nothing
