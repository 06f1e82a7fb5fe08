"""Would tuning pay here, in device-hours per day, with bounds that the counters prove."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.advise.doctor.figures import Figures, computed_tokens
from autotune.advise.doctor.window import Basis, Window, window_since_start
from autotune.core.signals import Signal

_HOURS_PER_DAY = 24.0
_WORTH_FRAC = 0.005  # of the devices' time; less than that is not seen among other things
_MIN_REQUESTS = 10.0


class Verdict(StrEnum):
    """The answer.

    ``PAYS``: even the lower bound is worth the effort. ``MAY_PAY``: only the upper bound is. ``DOES_NOT_PAY``: not even
    that. ``CANNOT_TELL``: the page lacks what the bounds rest on.
    """

    PAYS = "pays"
    MAY_PAY = "may_pay"
    DOES_NOT_PAY = "does_not_pay"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Worth:
    """The answer and what it rests on.

    Attributes:
        verdict: The answer.
        low_device_hours_per_day: Proven to go into computing again what had been there; ``None`` where it cannot be
            told. More room saves all of it, a better policy in the same room a part.
        high_device_hours_per_day: Cannot be more, whatever the policy and the room.
        devices: That the figures are for.
        because: What bounds the saving, in words.
        missing: What would narrow it.
    """

    verdict: Verdict
    low_device_hours_per_day: float | None
    high_device_hours_per_day: float | None
    devices: int
    because: tuple[str, ...]
    missing: tuple[str, ...]


def worth(window: Window, seen: Figures, devices: int) -> Worth:
    """Bounds on the time that goes into computing again what had been there.

    The upper bound takes every computed prompt token for one that was there before, save those that cannot have been:
    as long as nothing had been evicted, whatever was computed was new. The lower bound is what was asked for again
    after it had left, where the plug-in counts that.

    Args:
        window: What was counted.
        seen: Its figures.
        devices: Devices of the engine, all ranks together.
    """
    lacking = _lacking(window, seen)
    if lacking:
        return Worth(Verdict.CANNOT_TELL, None, None, devices, (), lacking)
    per_rank = devices / window.page.engine.ranks
    hours = _HOURS_PER_DAY * per_rank / (window.seconds or 1.0)
    avoidable_frac, reason = _avoidable_frac(window, seen)
    busy_s = (seen.computed_tokens or 0.0) * (seen.prefill_s_per_token_high or 0.0)
    most_s = min(busy_s, (window.seconds or 0.0) * window.page.engine.ranks)
    high = most_s * avoidable_frac * hours
    lost_s, proof = _proven_s(window, seen)
    low = min(lost_s * hours, high)
    because = [reason, *proof]
    if seen.turnover_s is not None:
        because.append(f"new tokens replace the device's content every {seen.turnover_s:,.0f} s")
    return Worth(_verdict(low, high, devices), low, high, devices, tuple(because), _narrowing(window))


def _verdict(low: float, high: float, devices: int) -> Verdict:
    enough = _WORTH_FRAC * _HOURS_PER_DAY * devices
    if low >= enough:
        return Verdict.PAYS
    return Verdict.MAY_PAY if high >= enough else Verdict.DOES_NOT_PAY


def _lacking(window: Window, seen: Figures) -> tuple[str, ...]:
    """Signals without which there are no bounds."""
    found = []
    if window.seconds is None:
        found.append("how long the engine has been running: give --interval, or a second look")
    if seen.computed_tokens is None:
        found.append("how many prompt tokens were computed: counters of the prefix cache, or of tokens by source")
    if seen.prefill_s_per_token_high is None:
        found.append("how long prefill takes: times of prefill or to the first token, of at least one request")
    if (seen.requests or 0.0) < _MIN_REQUESTS:
        count = "an unknown number" if seen.requests is None else f"{seen.requests:,.0f}"
        found.append(f"traffic: {count} of requests finished, {_MIN_REQUESTS:g} are needed; look for longer")
    return tuple(found)


def _avoidable_frac(window: Window, seen: Figures) -> tuple[float, str]:
    """Upper bound on the share of computed tokens that some larger or better cache could have had."""
    page = window.page
    computed, capacity = computed_tokens(window_since_start(page, None)), seen.device_tokens
    if capacity is None or computed is None:
        return 1.0, "every computed token may have been there before: how much the device holds is unknown"
    tails = (page.value(Signal.REQUESTS_FINISHED) or 0.0) * (page.value(Signal.BLOCK_TOKENS) or 0.0)
    filled = computed + (page.value(Signal.GENERATION_TOKENS) or 0.0) + tails
    if filled <= capacity:
        words = f"{filled:,.0f} tokens since the start fit the device's {capacity:,.0f}: nothing has been evicted yet"
        return 0.0, words
    if window.basis is Basis.INTERVAL:
        return 1.0, "every computed token may have been there before: counters do not tell old from new"
    new_frac = capacity / filled  # computed before the first eviction, and so for the first time
    return 1.0 - new_frac, f"{100.0 * new_frac:.0f} % of what was computed filled an empty device and was new"


def _proven_s(window: Window, seen: Figures) -> tuple[float, list[str]]:
    """Seconds of an engine that went into what it once had, and the proof."""
    ghosts, chunk_tokens = window.count(Signal.PLUGIN_GHOST_HITS), _chunk_tokens(window)
    if not ghosts or not chunk_tokens:
        return 0.0, []
    proof = f"{ghosts:,.0f} chunks were asked for again after they had been evicted or refused"
    return ghosts * chunk_tokens * (seen.prefill_s_per_token_low or 0.0), [proof]


def _chunk_tokens(window: Window) -> float | None:
    chunks, tokens = window.count(Signal.PLUGIN_LOOKUP_CHUNKS_HIT), window.count(Signal.EXTERNAL_HIT_TOKENS)
    return tokens / chunks if chunks and tokens else window.page.value(Signal.BLOCK_TOKENS)


def _narrowing(window: Window) -> tuple[str, ...]:
    """What would bring the bounds closer together."""
    found = []
    if "kv-autotune" not in window.page.engine.layers:
        found.append("what was asked for again after it had left: the plug-in counts it, a recorded trace shows it")
    if window.basis is Basis.SINCE_START:
        found.append("the load of today: compare two looks, some minutes apart")
    if window.page.histogram(Signal.BLOCK_REUSE_GAP_S) is None and window.page.engine.name == "vllm":
        found.append("how long blocks live and when they come back: start vLLM with --kv-cache-metrics")
    return tuple(found)
