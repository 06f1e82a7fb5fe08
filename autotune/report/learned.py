"""What the table and the report of a tuning run say of the learned rule."""

from __future__ import annotations

from autotune.core.types import RankForm, StoreMode
from autotune.report.formats import duration, with_percent
from autotune.report.labels import LEARNED, setting_facts, short_setting
from autotune.search.result import LearnedReport, TuneResult

Facts = tuple[tuple[str, str], ...]


def chosen_rule(result: TuneResult) -> str:
    """The chosen rule in a few words."""
    if result.chosen == LEARNED:
        return f"learned rule, {result.learned.store_mode} stores"
    return short_setting(result.setting)


def rule_facts(result: TuneResult) -> Facts:
    """The chosen rule with its knobs."""
    if result.chosen != LEARNED:
        return setting_facts(result.setting)
    found = result.learned
    near_s, far_s = found.horizons_s
    return (
        ("rule", "evict what is expected to save the fewest seconds per second of keeping"),
        ("stores", str(found.store_mode)),
        ("learned from", f"{found.rows:,} runs of blocks, on the past alone"),
        ("near and far horizon", f"{duration(near_s)}, {duration(far_s)}"),
        ("the host accepts", "blocks that outrank what would leave"),
    )


def learned_facts(result: TuneResult) -> Facts:
    """What became of the learned rule, published or not; nothing where it was not a candidate."""
    found = result.learned
    if found.store_mode is None:
        return (("learned rule", f"none: {found.reason}"),) if found.reason else ()
    return (
        (
            "by the store mode",
            f"{with_percent(found.mode_gain_frac)} of LRU's cost: {_lru_in(found.store_mode)} saves that",
        ),
        ("by what was learned", f"{with_percent(found.learning_gain_frac)} beyond that"),
        ("store modes on the later part of the past", _modes(found)),
        ("fitted on", f"{found.rows:,} runs of blocks in {found.fit_seconds:.2f} s"),
        ("may it be published", found.reason),
    )


def learned_sentences(result: TuneResult) -> tuple[str, ...]:
    """The same for a terminal."""
    found = result.learned
    if found.store_mode is None:
        return (f"No rule was learned: {found.reason}",) if found.reason else ()
    return (
        f"Learned rule: {found.store_mode} stores alone save {with_percent(found.mode_gain_frac)}, what was learned"
        f"{_keys(found.form)} {with_percent(found.learning_gain_frac)} more",
    )


def _lru_in(mode: StoreMode) -> str:
    return "LRU with eager stores" if mode is StoreMode.EAGER else f"one LRU over both tiers, {mode} stores,"


def _keys(form: RankForm) -> str:
    return " with fixed keys" if form is RankForm.FIXED_KEY else ""


def _modes(found: LearnedReport) -> str:
    return ", ".join(f"{row.mode}{_keys(row.form)} {with_percent(row.gain_frac)}" for row in found.modes)
