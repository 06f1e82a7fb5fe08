"""Time to first token from arrivals, prefill servers and the link: a queueing model on top of the cache's hits.

Requests are served in order of arrival by identical prefill servers. The host-to-device link carries one load at a
time, in order. With prefetch depth d, the loads of the first d waiting requests may run before a server takes these
requests up; with d = 0 a load starts when its request does. Load and compute of one request overlap by a measured
fraction beta, so a request takes ``c + x - beta * min(c, x)`` for c seconds of compute and x seconds of load that
remain when it starts.

TTFT means nothing under a load that the servers cannot carry: the queue then grows with the length of the trace. So the
model refuses an offered load above a limit (0.9 by default) and says what it measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from autotune.core import registry
from autotune.core.errors import SimulationError
from autotune.core.trace import Trace

# Loading the kernels first also names the compile cache after their sources.
registry.load(registry.KERNELS, "tier")

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """The serving side of the model.

    Attributes:
        servers: Identical prefill servers.
        time_scale: Factor on all arrival times; 2 halves the rate.
        prefetch_depth: Waiting requests, from the head of the queue, whose loads may run.
        overlap_frac: beta, share of the shorter of load and compute that is hidden behind the longer.
        ttft_target_s: What counts as good for goodput.
        seed: Spreads arrivals inside a tick of the trace's clock.
    """

    servers: int = 1
    time_scale: float = 1.0
    prefetch_depth: int = 1
    overlap_frac: float = 0.8
    ttft_target_s: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values without meaning.

        Raises:
            SimulationError: a value is out of range.
        """
        if self.servers < 1 or not 0.0 < self.time_scale < float("inf"):
            raise SimulationError(
                "the queue needs at least one server and a positive time scale",
                got=f"servers={self.servers}, time_scale={self.time_scale}",
                remedy="give --servers 1 or more and --time-scale above 0",
            )
        if self.prefetch_depth < 0 or not 0.0 <= self.overlap_frac <= 1.0:
            raise SimulationError(
                "prefetch depth is not negative and the overlap is a fraction",
                got=f"prefetch_depth={self.prefetch_depth}, overlap_frac={self.overlap_frac}",
            )
        if not self.ttft_target_s > 0.0:
            raise SimulationError("a TTFT target is positive", got=f"ttft_target_s={self.ttft_target_s}")


@dataclass(frozen=True, slots=True)
class QueueResult:
    """Latencies of the measured requests.

    Attributes:
        ttft_s: ``(n_requests,)`` seconds from arrival to the end of prefill.
        load_frac: Offered load: compute seconds per server second.
        goodput_frac: Share of requests within the target.
        goodput_per_s: Requests within the target, per second.
    """

    ttft_s: Seconds
    load_frac: float
    goodput_frac: float
    goodput_per_s: float

    def quantile_s(self, q: float) -> float:
        """TTFT below which a share ``q`` of the requests stays."""
        return float(np.quantile(self.ttft_s, q)) if len(self.ttft_s) else float("nan")


def spread_arrivals(trace: Trace, time_scale: float, seed: int) -> Seconds:
    """``(n_requests,)`` arrival times with requests of one clock tick spread evenly at random over it, in order.

    The tick of a request is the nearest one: a coarse clock that was converted on the way leaves times a little beside
    its ticks.

    Raises:
        SimulationError: the seed is negative.
    """
    if seed < 0:
        raise SimulationError("a seed is not negative", got=seed)
    if not trace.tick_s:
        return trace.arrival_s * time_scale
    tick = np.rint(trace.arrival_s / trace.tick_s)
    draws = np.random.default_rng(seed).random(trace.n_requests)
    offset = draws[np.lexsort((draws, tick))]  # sorted within each tick
    return (tick + offset) * trace.tick_s * time_scale


def offered_load(arrival_s: Seconds, work_s: Seconds, servers: int) -> float:
    """Seconds of work per server second over the span of the arrivals; the link is one server."""
    span_s = float(arrival_s[-1] - arrival_s[0]) if len(arrival_s) > 1 else 0.0
    return float(work_s.sum()) / (servers * span_s) if span_s > 0.0 else float("inf")


def require_stable(server_frac: float, link_frac: float, max_load_frac: float) -> None:
    """Refuse to report TTFT where LRU alone would not keep up.

    Args:
        server_frac: Offered load of the prefill servers under LRU.
        link_frac: Offered load of the host link under LRU.
        max_load_frac: Highest load of either at which latencies mean something.

    Raises:
        SimulationError: a load is above the limit; the remedy names what would bring it down.
    """
    worst = max(server_frac, link_frac)
    if not worst <= max_load_frac:
        factor = worst / max_load_frac
        more, where = f"{factor:.2f} times as many --servers, or ", ""
        if link_frac > server_frac:
            more, where = "", " on the host link"
        raise SimulationError(
            f"TTFT is reported only under a stable load, at most {max_load_frac:g} under LRU",
            got=f"{worst:.2f}{where}",
            remedy=f"use {more}--time-scale {factor:.2f} times as large",
        )


def time_to_first_token(
    arrival_s: Seconds, compute_s: Seconds, load_s: Seconds, config: QueueConfig, measured_from: int = 0
) -> QueueResult:
    """Push all requests through the queue; report on those from ``measured_from`` on.

    Args:
        arrival_s: ``(n_requests,)`` arrival times, never decreasing.
        compute_s: ``(n_requests,)`` prefill seconds of what was not found.
        load_s: ``(n_requests,)`` seconds of loads on the link.
        config: Servers, link and prefetching.
        measured_from: First request that counts.
    """
    ttft_s = _serve(arrival_s, compute_s, load_s, config.servers, config.prefetch_depth, config.overlap_frac)
    measured_s = ttft_s[measured_from:]
    good = measured_s <= config.ttft_target_s
    span_s = float(arrival_s[-1] - arrival_s[measured_from]) if len(measured_s) else 0.0
    return QueueResult(
        ttft_s=measured_s,
        load_frac=offered_load(arrival_s[measured_from:], compute_s[measured_from:], config.servers),
        goodput_frac=float(good.mean()) if len(good) else float("nan"),
        goodput_per_s=float(good.sum()) / span_s if span_s > 0.0 else float("nan"),
    )


@njit(cache=True, nogil=True)
def _serve(
    arrival_s: Seconds, compute_s: Seconds, load_s: Seconds, servers: int, prefetch_depth: int, overlap: float
) -> Seconds:
    n = len(arrival_s)
    free_s = np.zeros(servers)
    start_s = np.zeros(n)
    ttft_s = np.zeros(n)
    link_free_s = 0.0
    for i in range(n):
        server = np.argmin(free_s)
        start_s[i] = max(arrival_s[i], free_s[server])
        ready_s = start_s[i]
        if load_s[i] > 0.0:
            # Among the first d in the queue from the moment that request i - d is taken up.
            issue_s = arrival_s[i] if prefetch_depth > 0 else start_s[i]
            if 0 < prefetch_depth <= i:
                issue_s = max(issue_s, start_s[i - prefetch_depth])
            begin_s = max(issue_s, link_free_s)
            link_free_s = begin_s + load_s[i]
            ready_s = link_free_s
        rest_s = max(0.0, ready_s - start_s[i])
        end_s = start_s[i] + compute_s[i] + rest_s - overlap * min(compute_s[i], rest_s)
        free_s[server] = end_s
        ttft_s[i] = end_s - arrival_s[i]
    return ttft_s
