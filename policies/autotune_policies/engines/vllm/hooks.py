"""What the connector tells the manager, because vLLM does not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from autotune.core.types import StoreMode
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.vllm.features import FinishedRequest, TransferReport
from autotune_policies.engines.vllm.groups import GROUP_BYTES, ChunkGroups
from autotune_policies.engines.vllm.past import EnginePast
from autotune_policies.engines.vllm.policy import RankCachePolicy
from autotune_policies.engines.vllm.trail import RequestTrail
from autotune_policies.engines.vllm.witness import Witness


class ConnectorHooks:
    """Part of the manager: see the protocol in :mod:`autotune_policies.engines.vllm.connector`."""

    groups: ChunkGroups
    _now_ns: Callable[[], int]
    _ordered: RankCachePolicy
    _past: EnginePast
    _trails: dict[str, RequestTrail]
    _witness: Witness
    _hears_of_requests: bool

    def note_idle(self, req_context: Any, prefix: bytes | None, end_tokens: int) -> None:
        """What is offered under this context next lies idle on the device; that is no use of it.

        Args:
            req_context: The context.
            prefix: The chunk before, if there is one.
            end_tokens: Tokens up to that one's end.
        """
        trail = self._trail(req_context)
        trail.is_idle = True
        if prefix is not None:
            suffix = prefix[-GROUP_BYTES:]
            trail.tips[suffix] = prefix, end_tokens // self.groups.chunk_tokens[suffix] - 1

    def note_full_attention(self, groups: Collection[int]) -> None:
        """Which groups have full attention, where the engine tells its connector only."""
        self.groups.tell_full_attention(groups)

    def note_device(self, n_chunks: int, find_block: Callable[[bytes], object] | None) -> None:
        """How many chunks the device holds, and who knows which."""
        index = self._ordered.index
        self._past.tell_device(n_chunks)
        if index is not None and find_block is not None:
            index.on_device = lambda key: find_block(key) is not None

    def note_ended(self, req_id: str, request: FinishedRequest) -> None:
        """A request has ended; told before :meth:`on_request_finished`."""
        self._hears_of_requests = True
        trail, index = self._trails.get(req_id), self._ordered.index
        now_ns = self._now_ns()
        spans = self._past.observe(request, now_ns)
        self._witness.finished(request, trail.known if trail is not None else {}, spans)
        if index is None:
            return
        if index.rules.learned is not None:
            index.refresh((key for part in (request.generated, request.keys) for key in reversed(part)), (), now_ns)
        elif index.rules.store_mode is not StoreMode.EAGER:
            self._count_uses(index, request)

    def _count_uses(self, index: HostIndex, request: FinishedRequest) -> None:
        """Where copies come only when the device gives a chunk up, the host hears of uses here; loads it heard of."""
        loaded = range(request.device_chunks, request.device_chunks + request.host_chunks)
        others = [key for i, key in reversed(list(enumerate(request.keys))) if i not in loaded]
        now_ns = self._now_ns()
        index.refresh([key for key in others if key in index.residents], (), now_ns)
        index.refuse([key for key in others if key not in index.residents], now_ns)

    def note_load_refused(self, keys: Sequence[bytes], reason: str) -> None:
        """A run that the host holds is computed again."""
        if self._ordered.index is not None:
            self._witness.load_decided(self._ordered.index, keys, reason)

    def note_transfer(self, report: TransferReport) -> None:
        """Copies have finished."""
        self._witness.transferred(report.is_load, report.n_bytes, report.seconds)

    def _trail(self, req_context: Any) -> RequestTrail:
        return self._trails.get(req_context.req_id) or RequestTrail()
