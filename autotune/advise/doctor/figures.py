"""The few figures that every judgement rests on, each with bounds where counters leave a choice."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.advise.doctor.window import Window
from autotune.core.signals import HistogramReading, Signal


@dataclass(frozen=True, slots=True)
class Figures:
    """What the counters add up to over the window; ``None`` is unknown, never zero.

    Attributes:
        prompt_tokens: Of prompts.
        computed_tokens: Prompt tokens that were computed.
        requests: That finished.
        device_hit_frac: Share of looked-up tokens that the device had.
        behind_hit_frac: Share of the tokens looked up behind the device that were there.
        prefill_s_per_token_low: Seconds of one engine per computed token if requests were computed side by side.
        prefill_s_per_token_high: The same if one after the other.
        requests_at_once: Mean number of requests that ran at once.
        device_tokens: Tokens that the device holds.
        turnover_s: Time in which new tokens replace the device's whole content.
        bytes_per_token: KV of a token, from what was loaded.
    """

    prompt_tokens: float | None
    computed_tokens: float | None
    requests: float | None
    device_hit_frac: float | None
    behind_hit_frac: float | None
    prefill_s_per_token_low: float | None
    prefill_s_per_token_high: float | None
    requests_at_once: float | None
    device_tokens: float | None
    turnover_s: float | None
    bytes_per_token: float | None


def figures(window: Window) -> Figures:
    """The figures of a window."""
    computed = computed_tokens(window)
    low, high = _prefill_s_per_token(window)
    capacity = device_tokens(window)
    return Figures(
        prompt_tokens=window.count(Signal.PROMPT_TOKENS),
        computed_tokens=computed,
        requests=_requests(window),
        device_hit_frac=_device_hit_frac(window),
        behind_hit_frac=_hit_frac(window, Signal.EXTERNAL_HIT_TOKENS, Signal.EXTERNAL_QUERY_TOKENS),
        prefill_s_per_token_low=low,
        prefill_s_per_token_high=high,
        requests_at_once=_requests_at_once(window),
        device_tokens=capacity,
        turnover_s=_turnover_s(window, computed, capacity),
        bytes_per_token=_share(window.count(Signal.LOAD_BYTES), window.count(Signal.EXTERNAL_HIT_TOKENS)),
    )


def device_tokens(window: Window) -> float | None:
    """Tokens that the device holds, stated or as blocks times their size."""
    stated = window.page.value(Signal.DEVICE_CAPACITY_TOKENS)
    if stated is not None:
        return stated
    return _product(window.page.value(Signal.DEVICE_BLOCKS), window.page.value(Signal.BLOCK_TOKENS))


def computed_tokens(window: Window) -> float | None:
    """Prompt tokens that were computed: as counted, else what was looked up and found nowhere."""
    if (counted := window.count(Signal.COMPUTED_TOKENS)) is not None:
        return counted
    asked, found = window.count(Signal.PREFIX_QUERY_TOKENS), window.count(Signal.PREFIX_HIT_TOKENS)
    if asked is None or found is None:
        return None
    behind = window.count(Signal.CACHED_EXTERNAL_TOKENS)
    return max(0.0, asked - found - (behind or 0.0))


def _requests(window: Window) -> float | None:
    finished = window.count(Signal.REQUESTS_FINISHED)
    if finished is not None:
        return finished
    times = window.histogram(Signal.E2E_S) or window.histogram(Signal.TTFT_S)
    return times.count if times is not None else None


def _device_hit_frac(window: Window) -> float | None:
    counted = _hit_frac(window, Signal.PREFIX_HIT_TOKENS, Signal.PREFIX_QUERY_TOKENS)
    if counted is not None:
        return counted
    reused, missed = window.count(Signal.BLOCKS_REUSED), window.count(Signal.BLOCKS_MISSED)
    if reused is not None and missed is not None and reused + missed > 0.0:
        return reused / (reused + missed)
    return window.page.value(Signal.DEVICE_HIT_FRAC)


def _prefill_s_per_token(window: Window) -> tuple[float | None, float | None]:
    """Bounds on the seconds that an engine works for one computed token.

    Prefill times of requests that run at once overlap, and each counts the whole step that it shares. So their sum is
    too high by as much as requests share steps, at most all that run at once.
    """
    exact = _share(window.count(Signal.PROMPT_SECONDS), window.count(Signal.COMPUTED_TOKENS))
    if exact is not None:
        return exact, exact
    tokens = _tokens_of_prefills(window)
    if not tokens:
        return None, None
    prefill = window.histogram(Signal.PREFILL_S)
    if prefill is None or prefill.sum is None:
        return _from_ttft(window, tokens)
    high = prefill.sum / tokens
    at_once = _requests_at_once(window)
    return (high / max(1.0, at_once) if at_once is not None else 0.0), high


def _from_ttft(window: Window, tokens: float) -> tuple[float | None, float | None]:
    """Time to the first token holds the prefill, so without the time in the queue it is no less."""
    ttft, queue = window.histogram(Signal.TTFT_S), window.histogram(Signal.QUEUE_S)
    if ttft is None or ttft.sum is None:
        return None, None
    waited_s = queue.sum if queue is not None and queue.sum is not None and queue.count <= ttft.count else 0.0
    return 0.0, max(0.0, ttft.sum - waited_s) / tokens


def _tokens_of_prefills(window: Window) -> float | None:
    """Computed tokens of the very requests whose prefill was timed."""
    timed = window.histogram(Signal.REQUEST_COMPUTED_TOKENS)
    return timed.sum if timed is not None and timed.sum else computed_tokens(window)


def _requests_at_once(window: Window) -> float | None:
    """By Little's law from the times that requests ran, else what runs at the moment, per rank."""
    ran: HistogramReading | None = window.histogram(Signal.INFERENCE_S)
    if ran is not None and ran.sum is not None and window.seconds:
        return ran.sum / window.seconds / window.page.engine.ranks
    running = window.page.value(Signal.REQUESTS_RUNNING)
    return None if running is None else running / window.page.engine.ranks


def _turnover_s(window: Window, computed: float | None, capacity: float | None) -> float | None:
    generated = window.count(Signal.GENERATION_TOKENS)
    if computed is None or capacity is None or not window.seconds:
        return None
    per_s = (computed + (generated or 0.0)) / window.seconds
    return capacity / per_s if per_s > 0.0 else None


def _hit_frac(window: Window, hits: Signal, queries: Signal) -> float | None:
    """Hits of queries; more hits than queries are no rate, and reported elsewhere."""
    share = _share(window.count(hits), window.count(queries))
    return share if share is not None and share <= 1.0 else None


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other
