"""The connector that users name in ``--kv-transfer-config``: vLLM's OffloadingConnector with the policy's decisions.

It adds, in the scheduler's process only: **load or recompute** (a run that the host holds is loaded only where that
takes less time than computing it, see :mod:`autotune_policies.engines.vllm.link`), **features** of requests for the
manager's records, the **lazy store** (:mod:`autotune_policies.engines.vllm.lazy`) and **device keep**
(:mod:`autotune_policies.engines.vllm.device`). Where a policy asks for none of them, every call is vLLM's own.

**What it asks of the manager.** Every part is optional; vLLM's own managers have none and get stock behaviour.

- ``rules``: ``live.rules.HostRules`` in force; looked at in every step.
- ``device_rules``: ``device.DeviceRules`` in force, ``None`` = the device's own order.
- ``counters``: ``metrics.PolicyCounters``; ``loads_refused``, ``lazy_stores`` and ``fallbacks`` are counted there.
- ``note_full_attention(group_ids)``: which groups have full attention; told once at the start.
- ``note_device(n_chunks, find_block)``: how many chunks the device holds, and who knows which; told with the pool.
- ``past``: ``RunHistory`` of the chunks, ``None`` = nothing is remembered; the device's order asks it for runs.
- ``note_load_refused(keys, reason)``: a run that the host holds is computed again.
- ``note_ended(request_id, FinishedRequest)``: a request has ended; before the manager's own ``on_request_finished``.
- ``note_idle(context, prefix, end_tokens)``: what is offered under this context next is nobody's use, but idle on the
  device; the chunk before it, if any, and the tokens up to that one's end.
- ``note_transfer(TransferReport)``: copies have finished.

Whatever our code raises, the call is answered as vLLM's own connector would have, and from then on always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.logger import init_logger

from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.decisions import SchedulerPart
from autotune_policies.engines.vllm.seams import Feature

_log = init_logger("vllm.kv_autotune")
_Rest = ParamSpec("_Rest")
_Answer = TypeVar("_Answer")


class AutotuneConnector(OffloadingConnector):
    """vLLM's OffloadingConnector, obeying a policy file."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._ours: SchedulerPart | None = None
        self._is_stock = role != KVConnectorRole.SCHEDULER or not compat.is_usable(Feature.CONNECTOR)
        if not self._is_stock:
            try:
                self._ours = SchedulerPart(self.connector_scheduler, vllm_config)
            except Exception as error:
                self._fall_back("start", error)

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:
        """The device's pool, handed over once when the scheduler has been built."""
        super().bind_gpu_block_pool(gpu_block_pool)
        self._guard(None, SchedulerPart.bind_pool, gpu_block_pool)

    def on_new_request(self, request: Any) -> None:
        """A request was added."""
        super().on_new_request(request)
        self._guard(None, SchedulerPart.on_new_request, request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Tokens to load beyond those that the device has: what the host holds, or 0 where loading does not pay."""
        stock: tuple[int | None, bool] = super().get_num_new_matched_tokens(request, num_computed_tokens)
        n_tokens = stock[0]
        if n_tokens is None:
            return stock
        if n_tokens and not self._guard(True, SchedulerPart.load_pays, request, num_computed_tokens, n_tokens):
            stock = 0, False
        self._guard(None, SchedulerPart.note_lookup, request, num_computed_tokens, stock[0] or 0)
        return stock

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """Copies of this step: vLLM's own, and those of the lazy store."""
        self._guard(None, SchedulerPart.follow_policy)
        meta = super().build_connector_meta(scheduler_output)
        self._guard(None, SchedulerPart.add_stores, scheduler_output, meta)
        return meta

    def update_connector_output(self, connector_output: Any) -> None:
        """Copies have finished. Our own jobs are taken out before vLLM's connector, which does not know them, looks."""
        if self._ours is not None:
            self._ours.lazy_completed(connector_output, self._fall_back)
        self._guard(None, SchedulerPart.note_transfers, connector_output)
        super().update_connector_output(connector_output)

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """A request has ended; its blocks are still its own."""
        self._guard(None, SchedulerPart.request_finished, request, (block_ids,))
        return super().request_finished(request, block_ids)

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """The same, with the blocks of every KV-cache group."""
        self._guard(None, SchedulerPart.request_finished, request, block_ids)
        return super().request_finished_all_groups(request, block_ids)

    def has_pending_push_work(self) -> bool:
        """Whether the engine must go on stepping without requests."""
        return super().has_pending_push_work() or (self._ours is not None and self._ours.lazy_pending)

    def reset_cache(self) -> bool | None:
        """Empty the host."""
        if self._ours is None:
            return super().reset_cache()
        self._guard(None, SchedulerPart.before_reset)
        to_flush = self._ours.take_flushes()
        done: bool | None = super().reset_cache()
        self._ours.after_reset(to_flush)
        return done

    def _guard(
        self,
        stock: _Answer,
        decide: Callable[Concatenate[SchedulerPart, _Rest], _Answer],
        *arguments: _Rest.args,
        **named: _Rest.kwargs,
    ) -> _Answer:
        """Our decision, or the stock answer where we have failed before or fail now."""
        if self._is_stock or self._ours is None:
            return stock
        try:
            return decide(self._ours, *arguments, **named)
        except Exception as error:
            self._fall_back(decide.__name__, error)
            return stock

    def _fall_back(self, where: str, error: Exception) -> None:
        """Stock behaviour for good. Copies in flight are still completed."""
        if self._is_stock:
            return
        self._is_stock = True
        _log.error(
            "kv-autotune: a fault in %s; the connector goes on with vLLM's own behaviour until it is restarted. "
            "Requests are served as before; please report this.",
            where,
            exc_info=error,
        )
        if self._ours is not None:
            self._ours.become_stock()
