"""How each class of requests is served: the share whose first token comes within the class's own target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.advise.scenarios import TrafficClass
from autotune.core.errors import ConfigError
from autotune.core.units import MS_PER_S


@dataclass(frozen=True, slots=True)
class ClassService:
    """One class of requests.

    Attributes:
        name: What it is called.
        requests: Requests of it.
        ttft_p95_s: Seconds within which 95 of 100 had their first token.
        ttft_goal_s: Its target.
        goodput_frac: Share of its requests within the target.
        goodput_goal_frac: Share that was promised.
        met: Whether the promise is kept.
    """

    name: str
    requests: int
    ttft_p95_s: float
    ttft_goal_s: float
    goodput_frac: float
    goodput_goal_frac: float
    met: bool


def service_of_classes(
    classes: Sequence[TrafficClass], input_tokens: npt.NDArray[np.int32], ttft_s: npt.NDArray[np.float64]
) -> tuple[ClassService, ...]:
    """Service of each class that has requests.

    Args:
        classes: Shortest prompts first; a request is of the first whose limit it keeps.
        input_tokens: ``(n_requests,)`` prompt lengths.
        ttft_s: ``(n_requests,)`` seconds to the first token.

    Raises:
        ConfigError: the classes are not in order, or a prompt is longer than all of them allow.
    """
    limits = [each.max_input_tokens for each in classes]
    if limits != sorted(set(limits)):
        raise ConfigError("classes are listed from the shortest prompts to the longest", got=limits)
    number = np.searchsorted(np.array(limits), input_tokens, side="left")
    if np.any(number == len(limits)):
        raise ConfigError(
            "every prompt belongs to a class",
            got=f"one of {int(input_tokens.max()):,} tokens",
            remedy="raise max_input_tokens of the last class",
        )
    return tuple(_service(each, ttft_s[number == i]) for i, each in enumerate(classes) if np.any(number == i))


def _service(each: TrafficClass, ttft_s: npt.NDArray[np.float64]) -> ClassService:
    goal_s = each.ttft_goal_ms / MS_PER_S
    good = float(np.mean(ttft_s <= goal_s))
    return ClassService(
        name=each.name,
        requests=len(ttft_s),
        ttft_p95_s=float(np.quantile(ttft_s, 0.95)),
        ttft_goal_s=goal_s,
        goodput_frac=good,
        goodput_goal_frac=each.goodput_goal_frac,
        met=good >= each.goodput_goal_frac,
    )
