"""``kv-autotune explain``: what a policy makes of one block, with everything that follows from."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli._explain_learned import features_of, one_line, part_rows, price_text, rank_text, reason_by_rank
from autotune.cli.common import print_json, stdout_console
from autotune.core.units import MIB, MS_PER_S

if TYPE_CHECKING:
    from rich.table import Table

    from autotune.core.policy import Explanation, LearnedParts, PolicyDocument, Prices, RankParts

_ABSENT = "–"
_NOT_MEASURED = "not measured"


def explain(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="Policy file.")],
    depth_tokens: Annotated[int, typer.Option("--depth-tokens", help="Tokens of the prompt before the block.")],
    frequency: Annotated[
        float, typer.Option("--frequency", help="How often the block was asked for, the last time included.")
    ],
    age_s: Annotated[float, typer.Option("--age-s", help="Seconds since the last time.")] = 0.0,
    size_tokens: Annotated[
        int | None, typer.Option("--size-tokens", help="Tokens in the block; those of the trace's blocks if not given.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature", metavar="NAME=VALUE", help="What else is known, for a learned policy; may be repeated."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.svg|FILE.html", help="Picture of the same, for a learned policy."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain what a policy makes of one idle block: its value on each tier, the prices, the decision, its rank."""
    from autotune.core.policy import explain as explained
    from autotune.core.policy import load

    document = load(policy)
    size = document.fingerprint.trace_block_tokens if size_tokens is None else size_tokens
    told = explained(
        document,
        depth_tokens=depth_tokens,
        frequency=frequency,
        age_s=age_s,
        size_tokens=size,
        features=features_of(feature or []),
    )
    title = (
        f"A block of {size:,} tokens ({told.size_bytes / MIB:,.4g} MiB) behind {depth_tokens:,} tokens of prompt, "
        f"asked for {frequency:g} time{'' if frequency == 1 else 's'}, the last time {age_s:g} s ago"
    )
    if plot is not None:
        _draw(document, told, title, plot)
    if as_json:
        print_json(as_object(document, told))
        return
    _print(title, document, told)


def _draw(document: PolicyDocument, told: Explanation, title: str, path: Path) -> None:
    from autotune.core.errors import PolicyError
    from autotune.core.policy import ClassHazardDocument
    from autotune.report.block_picture import save_picture

    if told.learned is None or not isinstance(document, ClassHazardDocument):
        raise PolicyError(
            "a picture shows a learned model", got=f"a policy of kind {document.kind!r}", remedy="leave --plot away"
        )
    decision = f"{told.decision}: {_reason(told)}. Class {told.learned.block_class}, reuse within "
    decision += f"{told.learned.far.horizon_s:g} s from now with probability {told.reuse_probability:.3g}."
    save_picture(document.class_hazard.model(), told.learned, title, decision, path)


def as_object(document: PolicyDocument, told: Explanation) -> dict[str, object]:
    """The JSON object of an explanation: null for a price that was not measured and a tier that does not exist."""
    prices, budget = document.prices, document.budgets.host_write
    return asdict(told) | {
        "value_host_s": told.value_host_s if math.isfinite(told.value_host_s) else None,
        "device_price_s_per_byte": prices.device_s_per_byte,
        "host_price_s_per_byte": prices.host_s_per_byte,
        "host_write": None if budget is None else budget.model_dump(),
        "ranks": [asdict(rank) | {"tier": rank.tier.name.lower()} for rank in told.ranks],
        "learned": None if told.learned is None else _learned_object(told, told.learned),
    }


def _learned_object(told: Explanation, learned: LearnedParts) -> dict[str, object]:
    stands = [asdict(rank) | {"tier": rank.tier.name.lower()} for rank in learned.on_tiers]
    line, values = one_line(told, learned), asdict(learned)
    if learned.key is not None:
        return values | {"key": values["key"] | {"tiers": stands}, "line": line}
    return values | {"ranks": stands, "line": line}


def _print(title: str, document: PolicyDocument, told: Explanation) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from autotune.core.types import Tier

    tiers = [tier.name.lower() for tier in Tier if document.tiers.of(tier) is not None]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for tier in tiers:
        table.add_column(tier, justify="right")
    for label, cells in (*_value_rows(document.prices, told), *_rank_rows(told, tiers)):
        table.add_row(label, *cells[: len(tiers)], *[_ABSENT] * (len(tiers) - len(cells)))
    console = stdout_console()
    console.print(title, markup=False, highlight=False)
    console.print(table)
    if told.learned is not None:
        console.print(_parts_table(told.learned))
        console.print(one_line(told, told.learned), markup=False, highlight=False, soft_wrap=True)
    for line in (*_sentences(told), *(f"Assumed: {assumption}." for assumption in told.assumptions)):
        console.print(line, markup=False, highlight=False)


def _parts_table(learned: LearnedParts) -> Table:
    """What each table adds to both scores."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("log odds of reuse")
    for parts in (learned.near, learned.far):
        table.add_column(f"within {parts.horizon_s:g} s", justify="right")
    for row in part_rows(learned):
        table.add_row(*row)
    return table


def _value_rows(prices: Prices, told: Explanation) -> list[tuple[str, list[str]]]:
    """Value, price and what is left, on the device and on the host."""
    values = (told.value_device_s, told.value_host_s)
    asked = (prices.device_s_per_byte, prices.host_s_per_byte)
    room_s = [None if price is None else price * told.size_bytes for price in asked]
    left = [value - (cost or 0.0) for value, cost in zip(values, room_s, strict=True)]
    worth = ("value of a copy", [_ms(value) for value in values])
    if told.learned is not None and told.learned.is_priced:
        return [worth]  # ranks are priced, and they decide
    return [
        worth,
        ("price of its room", [_NOT_MEASURED if cost is None else _ms(cost) for cost in room_s]),
        ("value less price", [_ms(value) for value in left]),
    ]


def _rank_rows(told: Explanation, tiers: list[str]) -> list[tuple[str, list[str]]]:
    """Where the block stands in the order of leaving: as seconds from now, or as what keeping it saves."""
    by_tier = {rank.tier.name.lower(): rank for rank in told.ranks}
    cells = [_rank_cells(by_tier.get(tier), told.learned, tier) for tier in tiers]
    is_key = told.learned is not None and told.learned.key is not None
    parts = ("key", "  last use", "  odds' part") if is_key else ("rank", "  last use", "  frequency's part")
    labels = ("who leaves first", *parts, "  cost's part")
    rows = [(label, [column[row] for column in cells]) for row, label in enumerate(labels)]
    if told.learned is not None and told.learned.is_priced:
        priced = [price_text(told.learned, tier) or _ABSENT for tier in tiers]
        rows.insert(2, ("price of its room", priced))
    return rows


def _rank_cells(rank: RankParts | None, learned: LearnedParts | None, tier: str) -> tuple[str, str, str, str, str]:
    if rank is None and learned is not None and learned.key is not None:
        key = learned.key
        return "smallest key", _s(key.key_s), _s(key.recency_s), _s(key.odds_shift_s), _s(key.value_shift_s)
    if rank is None:
        saved = rank_text(learned, tier) if learned is not None else None
        return "saves least", saved or _ABSENT, _s(-learned.age_s) if learned else _ABSENT, _ABSENT, _ABSENT
    if rank.policy == "lru":
        return "oldest use", _s(rank.rank_s), _s(rank.recency_s), _ABSENT, _ABSENT
    parts = (rank.recency_s, rank.frequency_term_s, rank.value_term_s)
    last_use, frequency, cost = map(_s, parts)
    return "smallest rank", _s(rank.rank_s), last_use, frequency, cost


def _sentences(told: Explanation) -> list[str]:
    has_host = math.isfinite(told.value_host_s)
    load = f", a load {_ms(told.load_s)}" if has_host else ""
    store = f", a store delays requests by {_ms(told.store_exposed_s)}" if has_host and told.store_exposed_s else ""
    return [
        f"{told.decision}: {_reason(told)}.",
        f"Recomputing it takes {_ms(told.recompute_s)}{load}{store}. It is asked for again within {_horizon(told)} "
        f"with probability {told.reuse_probability:.3g}.",
        _break_even(told, has_host),
    ]


def _horizon(told: Explanation) -> str:
    return "one turnover" if told.learned is None else f"{told.learned.far.horizon_s:g} s from now"


def _break_even(told: Explanation, has_host: bool) -> str:
    """Load against recompute, by length."""
    if not has_host:
        return "There is no host tier, so nothing is loaded."
    if told.break_even_tokens is None:
        return "At this depth a load never pays: recomputing is always quicker."
    if told.break_even_tokens == 1:
        return "At this depth a load pays from the first token on."
    return f"At this depth a load pays for runs of {told.break_even_tokens:,} tokens or more."


def _reason(told: Explanation) -> str:
    if told.learned is not None and told.learned.is_priced:
        return reason_by_rank(told, told.learned)
    device_left = told.value_device_s - told.device_price_s_per_byte * told.size_bytes
    host_left = told.value_host_s - told.host_price_s_per_byte * told.size_bytes
    if told.decision == "KEEP":
        return "on the device it is worth most, its price paid"
    if told.decision == "OFFLOAD":
        return "the host leaves more of its value than the device, the prices paid"
    return "no tier is worth its price" if max(device_left, host_left) < 0.0 else "nothing is gained by a copy"


def _ms(time_s: float) -> str:
    return f"{_figure(time_s * MS_PER_S)} ms" if math.isfinite(time_s) else _ABSENT


def _s(time_s: float) -> str:
    return f"{time_s + 0.0:+,.1f} s".replace("-", "−")


def _figure(value: float) -> str:
    """About three significant figures, without an exponent where people read none."""
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2e}".replace("-", "−")
    decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{decimals}f}".replace("-", "−")
