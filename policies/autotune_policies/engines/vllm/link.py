"""What the link between host and device is like now, measured from finished loads, and whether a new load pays."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.costs import CostProfile
from autotune.core.decide.value import load_pays
from autotune_policies.engines.vllm.series import LoadRefusal

_MEMORY_LOADS = 64  # a load counts half after about 44 later ones
_TRUSTED_LOADS = 8  # fewer measured loads than this do not replace the policy's figures


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """A load of n bytes takes ``latency_s + n / bytes_per_s`` on an idle link."""

    bytes_per_s: float
    latency_s: float


class LinkEstimate:
    """Bandwidth and latency from finished loads, by least squares with fading memory.

    A report covers k loads with their bytes and seconds in sum: ``seconds = k * latency + bytes / bandwidth``. Loads of
    several sizes tell the two apart; where they are all alike, the assumed latency is kept and the bandwidth follows.

    Args:
        memory_loads: Number of loads over which an old one fades to ``1 / e``.
    """

    def __init__(self, memory_loads: int = _MEMORY_LOADS) -> None:
        self._keep = 1.0 - 1.0 / memory_loads
        self._loads_loads = self._loads_bytes = self._bytes_bytes = 0.0
        self._loads_s = self._bytes_s = 0.0
        self.measured_loads = 0

    def observe(self, n_loads: int, n_bytes: float, seconds: float, n_ranks: int = 1) -> None:
        """Take a report of finished loads in.

        Args:
            n_loads: Copies that finished, on all ranks.
            n_bytes: Their bytes, on all ranks.
            seconds: Their seconds, summed over ranks.
            n_ranks: Ranks that copy at the same time; a load of the engine is one copy on each.
        """
        if n_loads < 1 or n_bytes <= 0 or seconds <= 0:
            return
        loads, elapsed_s = n_loads / n_ranks, seconds / n_ranks
        keep = self._keep**loads
        weight = 1.0 / loads
        self._loads_loads = keep * self._loads_loads + weight * loads * loads
        self._loads_bytes = keep * self._loads_bytes + weight * loads * n_bytes
        self._bytes_bytes = keep * self._bytes_bytes + weight * n_bytes * n_bytes
        self._loads_s = keep * self._loads_s + weight * loads * elapsed_s
        self._bytes_s = keep * self._bytes_s + weight * n_bytes * elapsed_s
        self.measured_loads += n_loads

    def speed(self, assumed: LinkSpeed) -> LinkSpeed:
        """The link as measured; the assumed figures until enough loads have been seen."""
        if self.measured_loads < _TRUSTED_LOADS:
            return assumed
        return self._separated() or self._bandwidth_only(assumed.latency_s)

    def _separated(self) -> LinkSpeed | None:
        determinant = self._loads_loads * self._bytes_bytes - self._loads_bytes**2
        if determinant <= 1e-3 * self._loads_loads * self._bytes_bytes:
            return None
        latency_s = (self._loads_s * self._bytes_bytes - self._bytes_s * self._loads_bytes) / determinant
        s_per_byte = (self._bytes_s * self._loads_loads - self._loads_s * self._loads_bytes) / determinant
        return LinkSpeed(1.0 / s_per_byte, latency_s) if latency_s >= 0.0 and s_per_byte > 0.0 else None

    def _bandwidth_only(self, latency_s: float) -> LinkSpeed:
        busy_s = self._bytes_s - latency_s * self._loads_bytes
        if busy_s <= 0.0:
            return LinkSpeed(self._bytes_bytes / self._bytes_s, 0.0)
        return LinkSpeed(self._bytes_bytes / busy_s, latency_s)


def refusal(
    costs: CostProfile, speed: LinkSpeed, start_tokens: int, n_tokens: int, ahead_bytes: float
) -> LoadRefusal | None:
    """Why the run of ``n_tokens`` after ``start_tokens`` should rather be recomputed; ``None`` = load it.

    Args:
        costs: What recompute costs, and the bytes of a token.
        speed: The link.
        start_tokens: Tokens before the run, which the device has.
        n_tokens: Length of the run.
        ahead_bytes: Bytes of loads that were submitted earlier and have not finished; the run waits for them.
    """
    run = (
        float(start_tokens),
        float(start_tokens + n_tokens),
        costs.prefill_linear_s,
        costs.prefill_quadratic_s,
        float(n_tokens * costs.kv_bytes_per_token),
        speed.bytes_per_s,
    )
    if load_pays(*run, speed.latency_s + ahead_bytes / speed.bytes_per_s):
        return None
    return LoadRefusal.LINK_BUSY if load_pays(*run, speed.latency_s) else LoadRefusal.BREAK_EVEN
