"""Eviction budgets inside a sequence: how many tokens each layer keeps. What is dropped changes the output."""

from __future__ import annotations

from fractions import Fraction

from autotune.core.errors import ConfigError


def heavy_hitters(context_tokens: int, heavy_frac: float | str, recent_frac: float | str) -> int:
    """Tokens that H2O keeps: the heaviest and the newest.

    >>> heavy_hitters(131_072, "0.1", "0.1")
    26214

    Raises:
        ConfigError: the shares are negative or more than everything.

    Source: Zhang et al., "H2O: Heavy-Hitter Oracle", arXiv:2306.14048.
    """
    share = Fraction(str(heavy_frac)) + Fraction(str(recent_frac))
    if not 0 <= share <= 1:
        raise ConfigError("the shares that are kept are between 0 and 1 together", got=float(share))
    return int(share * context_tokens)


def fixed_budget(context_tokens: int, budget_tokens: int) -> int:
    """Tokens that SnapKV keeps: its budget, once the context is longer.

    Source: Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation", arXiv:2404.14469.
    """
    return min(context_tokens, budget_tokens)


def pyramid(n_layers: int, budget_tokens: int, window_tokens: int, beta: int) -> tuple[int, ...]:
    """Tokens that PyramidKV keeps in each layer: many in the first, few in the last, evenly falling.

    >>> kept = pyramid(32, 2048, 32, 20)
    >>> kept[0], kept[-1], sum(kept)
    (3964, 151, 65840)

    Raises:
        ConfigError: there are fewer than two layers, the window does not fit in the budget, or β is not positive.

    Source: Cai et al., "PyramidKV", arXiv:2406.02069, and its code (pyramidkv_utils.py, PyramidKVCluster).
    """
    if n_layers < 2 or not 0 < window_tokens < budget_tokens or beta < 1:
        raise ConfigError(
            "a pyramid has at least 2 layers, a window smaller than its budget, and β of at least 1",
            got=(n_layers, budget_tokens, window_tokens, beta),
        )
    average = budget_tokens - window_tokens
    least = average // beta
    most = 2 * average - least
    step = (most - least) // (n_layers - 1)
    return tuple(most - layer * step + window_tokens for layer in range(n_layers))
