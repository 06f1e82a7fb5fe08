"""Settings side by side on cases that none of them was chosen on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.online.settings import OnlineSettings
from autotune.search.online.case import Case, Outcome
from autotune.search.online.joint_setting import JointSetting
from autotune.search.online.setting import LoopSetting

SomeSetting = LoopSetting | JointSetting


@dataclass(frozen=True, slots=True)
class Judged:
    """A setting on a set of cases under several seeds of the loop.

    Attributes:
        name: What the setting is called.
        closed_frac: Share of the gap between LRU and the clairvoyant that it closed, mean over cases and seeds.
        seed_frac: Standard deviation over the seeds of that mean over the cases.
        shadow_frac: Share that its rule closes where no guard keeps it from being obeyed.
        saved_frac: Share of LRU's critical-path seconds that it saved.
        worst_saved_frac: The same on the worst case and seed; below 0 it cost more than LRU.
        stored_bytes: Bytes copied to the host, mean over cases and seeds.
        by_case: Share of the gap closed on each case, mean over the seeds.
    """

    name: str
    closed_frac: float
    seed_frac: float
    shadow_frac: float
    saved_frac: float
    worst_saved_frac: float
    stored_bytes: float
    by_case: tuple[float, ...]


def judge(
    settings: Mapping[str, SomeSetting], cases: Sequence[Case], base: OnlineSettings, seeds: Sequence[int] = (0,)
) -> tuple[Judged, ...]:
    """Every setting on every case under every seed.

    Args:
        settings: Settings by name; equal ones run once.
        cases: What to run them on.
        base: What the settings do not say.
        seeds: Seeds of the loop.
    """
    known = {setting: _judged(name, setting, cases, base, seeds) for setting, name in _named_once(settings).items()}
    return tuple(replace(known[setting], name=name) for name, setting in settings.items())


def _named_once(settings: Mapping[str, SomeSetting]) -> dict[SomeSetting, str]:
    return {setting: name for name, setting in settings.items()}


def _judged(
    name: str, setting: SomeSetting, cases: Sequence[Case], base: OnlineSettings, seeds: Sequence[int]
) -> Judged:
    by_seed: list[list[Outcome]] = [
        [case.evaluate(setting, replace(base, seed=seed)) for case in cases] for seed in seeds
    ]
    closed = np.array([[outcome.closed_frac for outcome in row] for row in by_seed])
    saved = np.array([[outcome.saved_frac for outcome in row] for row in by_seed])
    return Judged(
        name=name,
        closed_frac=float(closed.mean()),
        seed_frac=float(closed.mean(axis=1).std()),
        shadow_frac=float(np.mean([outcome.shadow_frac for row in by_seed for outcome in row])),
        saved_frac=float(saved.mean()),
        worst_saved_frac=float(saved.min()),
        stored_bytes=float(np.mean([outcome.stored_bytes for row in by_seed for outcome in row])),
        by_case=tuple(closed.mean(axis=0).tolist()),
    )
