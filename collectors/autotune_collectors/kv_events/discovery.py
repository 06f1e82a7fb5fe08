"""Where an engine publishes its KV events, asked of the engine itself.

Source: vLLM 0.32.0, ``entrypoints/serve/instrumentator/basic.py``: ``GET /kv_event_sources`` gives the publisher's
configuration (``config/kv_events.py``) per data-parallel rank. Older ones have no such page.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from autotune.core.signals import CollectError, Target
from autotune_collectors.prometheus.scrape import ScrapeLimits, Scraper

_PATH = "/kv_event_sources"
_ANY_HOST = "tcp://*:"
_MAX_TEXT = 256


def discover(target: Target, timeout_s: float) -> tuple[str, str | None] | None:
    """Where the first rank publishes, and where it replays; ``None`` = nowhere, or the engine does not say.

    Args:
        target: The engine.
        timeout_s: Seconds that its answer may take.
    """
    try:
        ranks = Scraper(target, ScrapeLimits(total_s=timeout_s, read_s=timeout_s)).tree(_PATH)
    except CollectError:
        return None
    told = [ranks[rank] for rank in sorted(ranks)]
    first = told[0] if told else None
    if (
        not isinstance(first, dict)
        or first.get("enable_kv_cache_events") is not True
        or first.get("publisher") != "zmq"
    ):
        return None
    host = urlsplit(target.url).hostname or "127.0.0.1"
    endpoint = _reachable(first.get("endpoint"), host)
    return None if endpoint is None else (endpoint, _reachable(first.get("replay_endpoint"), host))


def _reachable(endpoint: object, host: str) -> str | None:
    """An address to connect to, of one that the engine listens on."""
    if not isinstance(endpoint, str) or not endpoint or len(endpoint) > _MAX_TEXT or not endpoint.isprintable():
        return None
    port = endpoint.removeprefix(_ANY_HOST)
    return endpoint if port == endpoint else f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
