"""Break-even: how long a run must be before loading it takes less time than computing it again."""

from __future__ import annotations

from autotune.core.costs import CostProfile
from autotune.core.decide.value import load_pays
from autotune.core.errors import ConfigError

MAX_RUN_TOKENS = 2**24


def break_even_tokens(costs: CostProfile, start_tokens: int, block_tokens: int = 1) -> int | None:
    """Length of the shortest run of whole blocks after ``start_tokens`` whose load is cheaper than its recompute.

    Recompute minus load is convex in the length and not positive at 0, so once loading pays, it pays for every longer
    run, and halving finds the first length exactly, with the very comparison that decides in the engine.

    Args:
        costs: Coefficients of the prefill and of the load.
        start_tokens: Tokens before the run, already on the device.
        block_tokens: Granularity of the answer.

    Returns:
        A multiple of ``block_tokens``, or ``None`` where loading does not pay up to ``MAX_RUN_TOKENS``.

    Raises:
        ConfigError: ``start_tokens`` is negative or ``block_tokens`` is not positive.
    """
    if start_tokens < 0 or block_tokens < 1:
        raise ConfigError(
            "a run starts at 0 or later and has blocks of at least 1 token", got=(start_tokens, block_tokens)
        )
    too_short, long_enough = 0, MAX_RUN_TOKENS // block_tokens
    if not _pays(costs, start_tokens, long_enough * block_tokens):
        return None
    while long_enough - too_short > 1:
        middle = (too_short + long_enough) // 2
        if _pays(costs, start_tokens, middle * block_tokens):
            long_enough = middle
        else:
            too_short = middle
    return long_enough * block_tokens


def _pays(costs: CostProfile, start_tokens: int, n_tokens: int) -> bool:
    return load_pays(
        start_tokens,
        start_tokens + n_tokens,
        costs.prefill_linear_s,
        costs.prefill_quadratic_s,
        n_tokens * costs.kv_bytes_per_token,
        costs.load_bytes_per_s,
        costs.load_latency_s,
    )
