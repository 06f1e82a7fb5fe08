"""Advice in words, from what a search found and from the engine's own counters."""

from __future__ import annotations

from autotune.core.units import GIB
from autotune.daemon.guard import SecondsPerToken
from autotune.daemon.jobs import HostSize, OutcomeKind, TuneOutcome
from autotune.daemon.status import Verdict, VerdictKind
from autotune.daemon.windows import Window

_SAME_FRAC = 0.01  # costs that differ by less are equal
_GROWTH_FRAC = 0.05  # saving of a larger tier from which it is worth its memory
_STORED_PER_LOADED = 20.0  # bytes stored for each byte loaded from which stores are waste
_STORE_CUT = 0.3  # share of the stores that must go to call it less
_MIN_TOKENS = 100_000.0  # prompt tokens without which counters say nothing


def verdict_of(
    outcome: TuneOutcome | None,
    window: Window,
    costs: SecondsPerToken | None,
    host_bytes: int,
    room_bytes: float | None = None,
) -> Verdict:
    """The advice.

    Args:
        outcome: What the last search found; ``None`` = there was none.
        window: The last intervals.
        costs: Turns tokens into seconds; ``None`` = not known.
        host_bytes: Size of the host tier now; 0 = none or unknown.
        room_bytes: What it could grow by on this machine; ``None`` = not known.
    """
    searched = outcome is not None and outcome.kind in {OutcomeKind.POLICY, OutcomeKind.NO_GAIN}
    if outcome is not None and searched:
        return _by_search(outcome, host_bytes, room_bytes)
    counted = _by_counters(window, costs)
    if counted is not None:
        return counted
    why = outcome.text if outcome is not None else "nothing was tuned yet"
    return Verdict(kind=VerdictKind.NOT_ENOUGH_EVIDENCE, text=f"Not enough evidence: {why}.")


def _by_search(outcome: TuneOutcome, host_bytes: int, room_bytes: float | None) -> Verdict:
    sizes = {size.host_bytes: size for size in outcome.sizes}
    now = _nearest(outcome.sizes, host_bytes)
    if now is not None and now.host_bytes:
        sized = _by_size(outcome.sizes, sizes.get(0), now, room_bytes)
        if sized is not None:
            return sized
    if _stores_less(outcome):
        before, after = (_gib(size or 0) for size in (outcome.stored_bytes_before, outcome.stored_bytes))
        text = f"Store less: {after} instead of {before} on the newest requests, and {outcome.text}."
        return Verdict(kind=VerdictKind.STORE_LESS, text=text)
    if outcome.kind is OutcomeKind.POLICY:
        return Verdict(kind=VerdictKind.NEW_POLICY, text=f"A new policy is worth it: {outcome.text}.")
    return Verdict(kind=VerdictKind.KEEP_AS_IT_IS, text=f"Leave it as it is, for this may be chance: {outcome.text}.")


def _by_size(
    sizes: tuple[HostSize, ...], without: HostSize | None, now: HostSize, room_bytes: float | None
) -> Verdict | None:
    if without is not None and without.cost_s <= now.cost_s * (1.0 + _SAME_FRAC):
        saved = 100.0 * (1.0 - now.cost_s / without.cost_s) if without.cost_s else 0.0
        text = f"Offload does not pay here: the host tier of {_gib(now.host_bytes)} saves {saved:.1f} % of the cost."
        return Verdict(kind=VerdictKind.OFFLOAD_DOES_NOT_PAY, text=text, host_bytes=0)
    grown = _grown(sizes, now, room_bytes)
    if grown is not None:
        return grown
    smaller = [size for size in sizes if 0 < size.host_bytes < now.host_bytes]
    as_good = next((size for size in smaller if size.cost_s <= now.cost_s * (1.0 + _SAME_FRAC)), None)
    if as_good is None:
        return None
    text = f"Drop the host tier to {_gib(as_good.host_bytes)}: it costs less than {100 * _SAME_FRAC:.0f} % more."
    return Verdict(kind=VerdictKind.SHRINK_HOST, text=text, host_bytes=as_good.host_bytes)


def _grown(sizes: tuple[HostSize, ...], now: HostSize, room_bytes: float | None) -> Verdict | None:
    """A larger host tier, as far as the machine has room for it; ``None`` = none is worth it."""
    larger = [size for size in sizes if size.host_bytes > now.host_bytes]
    fits = [size for size in larger if room_bytes is None or size.host_bytes - now.host_bytes <= room_bytes]
    for choice, is_there in ((fits, True), (larger, False)):
        best = min(choice, key=lambda size: size.cost_s, default=now)
        if best.cost_s >= now.cost_s * (1.0 - _GROWTH_FRAC):
            continue
        enough = next(size for size in choice if size.cost_s <= best.cost_s * (1.0 + _SAME_FRAC))
        text = f"Grow the host tier to {_gib(enough.host_bytes)}: {_saving(now, enough)}"
        if not is_there:
            text += f", but this machine has room for {_gib(round(room_bytes or 0.0))} more: give it memory first"
        return Verdict(kind=VerdictKind.GROW_HOST, text=f"{text}.", host_bytes=enough.host_bytes)
    return None


def _by_counters(window: Window, costs: SecondsPerToken | None) -> Verdict | None:
    """What counters alone can say: whether loads repay the transfers."""
    names = ("prompt_tokens", "host_hit_tokens", "load_s", "store_s", "load_bytes", "store_bytes")
    totals = [window.total(name) for name in names]
    if costs is None or any(total is None for total in totals):
        return None
    prompt, host, load_s, store_s, loaded, stored = (total or 0.0 for total in totals)
    if prompt < _MIN_TOKENS or not stored:
        return None
    saved_s = host * costs.prefill_s - load_s - costs.store_exposed_frac * store_s
    if saved_s <= 0.0:
        text = f"Offload does not pay here: in {window.seconds:.0f} s it cost {-saved_s:.1f} s more than it saved."
        return Verdict(kind=VerdictKind.OFFLOAD_DOES_NOT_PAY, text=text, host_bytes=0)
    if stored > _STORED_PER_LOADED * loaded:
        text = f"Store less: {_gib(round(stored))} were stored and {_gib(round(loaded))} loaded."
        return Verdict(kind=VerdictKind.STORE_LESS, text=text)
    return None


def _stores_less(outcome: TuneOutcome) -> bool:
    before, after, loaded = outcome.stored_bytes_before, outcome.stored_bytes, outcome.loaded_bytes
    if before is None or after is None or loaded is None or outcome.kind is not OutcomeKind.POLICY:
        return False
    return before > _STORED_PER_LOADED * loaded and after <= before * (1.0 - _STORE_CUT)


def _nearest(sizes: tuple[HostSize, ...], host_bytes: int) -> HostSize | None:
    return min(sizes, key=lambda size: abs(size.host_bytes - host_bytes), default=None)


def _saving(now: HostSize, then: HostSize) -> str:
    return f"that saves {100 * (1 - then.cost_s / now.cost_s):.1f} % of the cost" if now.cost_s else "no cost is left"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.3g} GiB"
