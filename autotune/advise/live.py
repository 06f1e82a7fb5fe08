"""What presses on a running vLLM, from one reading of its ``/metrics`` page.

Counters are sums since the engine's start, over all its ranks. They say what was found and who had to wait, but not how
much reuse there is nor where prefixes diverge.
Source: vLLM 0.32.0, v1/metrics/loggers.py.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from autotune.advise.pressure import DEFAULT_IDLE_S, Observations
from autotune.core.errors import ConfigError

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?P<labels>\{.*\})?\s+(?P<value>\S+)(\s+-?\d+)?$")
_USAGE = "vllm:kv_cache_usage_perc"
_QUERIES, _HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
_HOST_QUERIES, _HOST_HITS = "vllm:external_prefix_cache_queries_total", "vllm:external_prefix_cache_hits_total"
_PREEMPTIONS, _WAITING = "vllm:num_preemptions_total", "vllm:num_requests_waiting"
_PROMPTS, _PROMPT_TOKENS = "vllm:request_prompt_tokens_count", "vllm:request_prompt_tokens_sum"
_OUTPUT_TOKENS = "vllm:request_generation_tokens_sum"
_NEEDED = (_USAGE, _QUERIES, _HITS, _PREEMPTIONS, _WAITING, _PROMPTS, _PROMPT_TOKENS, _OUTPUT_TOKENS)


def observe_page(
    page: str,
    *,
    growth_bytes: Fraction,
    device_bytes: int,
    weights_bytes: int | None,
    break_even_tokens: int | None,
) -> Observations:
    """What one page says.

    Args:
        page: Text of the page.
        growth_bytes: KV of one token.
        device_bytes: KV that the device holds.
        weights_bytes: What a step reads besides KV.
        break_even_tokens: Length from which loading pays.

    Raises:
        ConfigError: the page lacks a series that the advice rests on, or one is no number.
    """
    values = _samples(page)
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        raise ConfigError(
            "advice needs the page of a running vLLM",
            got=f"one without {missing[0]}",
            remedy="fetch /metrics of the engine itself, with its statistics on",
        )
    totals = {name: sum(found) for name, found in values.items()}
    usage = totals[_USAGE] / len(values[_USAGE])  # a share, of each rank its own
    running_bytes = round(usage * device_bytes)
    requests = totals[_PROMPTS]
    return Observations(
        device_bytes=device_bytes,
        footprint_bytes=None,
        running_bytes=running_bytes,
        running_tokens=int(running_bytes / growth_bytes) if growth_bytes else 0,
        mean_context_tokens=(totals[_PROMPT_TOKENS] + totals[_OUTPUT_TOKENS]) / requests if requests else 0.0,
        idle_frac=None,
        idle_return_frac=None,
        idle_s=DEFAULT_IDLE_S,
        device_hit_frac=_share(totals[_HITS], totals[_QUERIES]) or 0.0,
        unbounded_hit_frac=None,
        read_frac=None if weights_bytes is None else running_bytes / (running_bytes + weights_bytes),
        break_even_tokens=break_even_tokens,
        places=(),
        host_hit_frac=_share(totals.get(_HOST_HITS, 0.0), totals.get(_HOST_QUERIES, 0.0)),
        requests_short=round(totals[_PREEMPTIONS] + totals[_WAITING]),
    )


def _samples(page: str) -> dict[str, list[float]]:
    """Values of the series that are read here, one per set of labels."""
    wanted = {*_NEEDED, _HOST_QUERIES, _HOST_HITS}
    found: dict[str, list[float]] = {}
    for line in page.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None or sample["name"] not in wanted:
            continue
        found.setdefault(sample["name"], []).append(_number(sample["name"], sample["value"]))
    return found


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0.0:
        raise ConfigError(f"{name} must be a number that is not negative", got=repr(text))
    return value


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0.0 else None
