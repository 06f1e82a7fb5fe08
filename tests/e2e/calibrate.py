"""Measures on a running server what a policy must know: seconds of prefill, and the link between device and host.

Run as a script in an environment that has vLLM; it prints ``{"costs": ...}`` (see :class:`MeasuredCosts`). The server's
caches should be emptied afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import asdict, dataclass

import numpy as np
from metrics_page import EngineCounters
from replay import Answer, ask, counters, say
from scaled_trace import BLOCK_TOKENS, prompt_tokens

_ROUNDS = 4
_SHORT_BLOCKS = 2
_FIRST_ID = 1_000_000  # far from the ids of any trace
_DECODED_TOKENS = 33
_LEAST_ITL_S = 1e-4


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """What one server on one machine takes.

    Attributes:
        fixed_s: Seconds of a request whatever its length.
        linear_s: Seconds of prefill per token.
        quadratic_s: Seconds per pair of tokens that attend to each other.
        itl_s: Seconds per further output token.
        load_bytes_per_s: Bandwidth from host to device.
        load_latency_s: Fixed seconds per load.
        store_bytes_per_s: Bandwidth from device to host.
        store_latency_s: Fixed seconds per store.
    """

    fixed_s: float
    linear_s: float
    quadratic_s: float
    itl_s: float
    load_bytes_per_s: float
    load_latency_s: float
    store_bytes_per_s: float
    store_latency_s: float


async def calibrate(url: str, vocabulary: int, longest_blocks: int) -> MeasuredCosts:
    """Measure, with nothing else running on the server.

    Args:
        url: Base address of the server.
        vocabulary: Tokens that the model knows.
        longest_blocks: Blocks of the longest prompts; twice as many must not fit on the device, but on the host.
    """
    import aiohttp

    async with aiohttp.ClientSession() as session:
        probe = _Probe(session, url, vocabulary)
        await probe.send(_FIRST_ID, longest_blocks)  # whatever the first request of a server waits for
        fixed_s, linear_s, quadratic_s = fit_prefill(*await _prefills(probe, longest_blocks))
        itl_s = await _decode_s(probe)
        short, long = await _transfers(probe, longest_blocks)
    load_bytes_per_s, load_latency_s = fit_link(
        (short.loads, short.loaded_bytes, short.load_s), (long.loads, long.loaded_bytes, long.load_s)
    )
    store_bytes_per_s, store_latency_s = fit_link(
        (short.stores, short.stored_bytes, short.store_s), (long.stores, long.stored_bytes, long.store_s)
    )
    return MeasuredCosts(
        fixed_s=fixed_s,
        linear_s=linear_s,
        quadratic_s=quadratic_s,
        itl_s=itl_s,
        load_bytes_per_s=load_bytes_per_s,
        load_latency_s=load_latency_s,
        store_bytes_per_s=store_bytes_per_s,
        store_latency_s=store_latency_s,
    )


class _Probe:
    """Sends one request after another and says what the engine counted."""

    def __init__(self, session: object, url: str, vocabulary: int) -> None:
        self._session, self._url, self._vocabulary = session, url, vocabulary

    async def send(self, first_id: int, n_blocks: int, output_tokens: int = 1) -> Answer:
        """A prompt of these blocks, whose ids count up from the first."""
        ids = np.arange(first_id, first_id + n_blocks, dtype=np.int32)
        prompt = prompt_tokens(ids, n_blocks * BLOCK_TOKENS, self._vocabulary)
        return await ask(self._session, self._url, prompt, output_tokens, time.monotonic())

    async def count(self) -> EngineCounters:
        """The counters, after the last copies have ended."""
        await asyncio.sleep(0.3)
        return await counters(self._session, self._url)


async def _prefills(probe: _Probe, longest_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths in tokens, and seconds of prompts that nothing is cached of; of several the quickest.

    Whatever else a machine does can only make a request slower.
    """
    lengths = [max(1, longest_blocks * eighth // 8) for eighth in (1, 2, 4, 6, 8)]
    quickest_s = [np.inf] * len(lengths)
    for turn in range(_ROUNDS):
        for place, n_blocks in enumerate(lengths):
            answer = await probe.send(_FIRST_ID + 1000 * (1 + turn * len(lengths) + place), n_blocks)
            quickest_s[place] = min(quickest_s[place], answer.e2e_s)
    return np.array(lengths) * BLOCK_TOKENS, np.array(quickest_s)


async def _decode_s(probe: _Probe) -> float:
    """Seconds per further output token: a long answer less a short one, both to the same cached prompt."""
    await probe.send(_FIRST_ID, 1)
    quickest_s = [
        min([(await probe.send(_FIRST_ID, 1, n)).e2e_s for _ in range(_ROUNDS)]) for n in (1, _DECODED_TOKENS)
    ]
    return max(_LEAST_ITL_S, (quickest_s[1] - quickest_s[0]) / (_DECODED_TOKENS - 1))


async def _transfers(probe: _Probe, longest_blocks: int) -> tuple[EngineCounters, EngineCounters]:
    """Loads and stores of short runs, and of long ones; each prompt pushes the one before it off the device."""
    before = await probe.count()
    firsts = [_FIRST_ID + 100_000 + 1000 * turn for turn in range(4)]
    for first in firsts:
        await probe.send(first, _SHORT_BLOCKS)
    stored = await probe.count()
    long = [_FIRST_ID + 200_000, _FIRST_ID + 300_000]
    for first in long * _ROUNDS:
        await probe.send(first, longest_blocks)
    between = await probe.count()
    for first in firsts:
        await probe.send(first, _SHORT_BLOCKS)
    after = await probe.count()
    return _sum(stored - before, after - between), between - stored


def _sum(one: EngineCounters, other: EngineCounters) -> EngineCounters:
    return one - (EngineCounters() - other)


def fit_prefill(tokens: np.ndarray, seconds: np.ndarray) -> tuple[float, float, float]:
    """Least squares of ``fixed + linear * n + quadratic * n * (n + 1) / 2`` with no negative coefficient.

    Args:
        tokens: ``(n_samples,)`` lengths.
        seconds: ``(n_samples,)`` times to the first token.

    Returns:
        The three coefficients; where attention does not show, its one is 0. The linear one is above 0.
    """
    columns = np.stack([np.ones(len(tokens)), tokens, tokens * (tokens + 1) / 2], axis=1).astype(float)
    for used in ([0, 1, 2], [0, 1], [1, 2], [1]):
        found = np.linalg.lstsq(columns[:, used], seconds, rcond=None)[0]
        if (found >= 0.0).all() and found[used.index(1)] > 0.0:
            break
    coefficients = np.zeros(3)
    coefficients[used] = np.maximum(found, 0.0)
    fixed_s, linear_s, quadratic_s = map(float, coefficients)
    return fixed_s, linear_s, quadratic_s


def fit_link(short: tuple[float, float, float], long: tuple[float, float, float]) -> tuple[float, float]:
    """Bandwidth and latency from two groups of transfers, each given as their number, bytes and seconds together.

    Returns:
        Bytes per second and seconds; the latency is 0 where it cannot be told apart.
    """
    (few, small_bytes, small_s), (many, large_bytes, large_s) = short, long
    determinant = few * large_bytes - many * small_bytes
    latency_s = (small_s * large_bytes - large_s * small_bytes) / determinant if determinant > 0 else 0.0
    latency_s = min(max(latency_s, 0.0), small_s / few if few else 0.0)
    busy_s = large_s - many * latency_s
    return (large_bytes / busy_s if busy_s > 0 else large_bytes / max(large_s, 1e-9)), latency_s


def main() -> None:
    """Measure one server."""
    parser = argparse.ArgumentParser(description="Measure prefill and link of a running server.")
    parser.add_argument("url")
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--longest-blocks", type=int, required=True)
    given = parser.parse_args()
    say("costs", asdict(asyncio.run(calibrate(given.url, given.vocabulary, given.longest_blocks))))


if __name__ == "__main__":
    main()
