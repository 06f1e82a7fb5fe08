"""TensorRT-LLM's statistics of iterations: a JSON list of which the newest item is read as if it were a page.

Items carry cumulated counts and momentary values, which are read, and increments of one iteration, which are not: an
item that somebody else fetched is gone, so their sum would be wrong.
Source: TensorRT-LLM, tensorrt_llm/metrics/collector.py (``log_iteration_stats``).
"""

from __future__ import annotations

import json
import math

from autotune.core.signals import CollectError
from autotune_collectors.prometheus.lines import PageLines, PageSample
from autotune_collectors.prometheus.names import name_index

_PREFIX = "trtllm_iteration:"


def iteration_page(text: str) -> PageLines | None:
    """The newest item of a list of iterations as samples, ``None`` if the text is no JSON.

    Raises:
        CollectError: it is JSON of something else, or a list without items.
    """
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise CollectError("a page that begins like JSON must be JSON", got=type(problem).__name__) from problem
    items = tree if isinstance(tree, list) else [tree]
    if not items:
        raise CollectError(
            "the statistics of iterations must have an item",
            got="an empty list",
            remedy="ask while requests are served",
        )
    lines = PageLines()
    if isinstance(items[-1], dict):
        _add(items[-1], "", lines)
    return lines


def _add(tree: dict[str, object], path: str, lines: PageLines) -> None:
    """Numbers of the top level and of the objects right below it."""
    for key, value in tree.items():
        if isinstance(value, dict) and not path:
            _add(value, f"{key}.", lines)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            lines.n_samples += 1
            name = f"{_PREFIX}{path}{key}"
            resolved = name_index().resolve(name)
            if resolved is not None:
                lines.samples.append(PageSample(name, resolved, (), _as_float(value)))


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
