"""The policy for users who keep vLLM's own spec and manager: ``eviction_policy`` and ``cache_policy_module_path``.

vLLM hands a cache policy nothing but its capacity, so the policy file comes from ``KV_AUTOTUNE_POLICY``, and a policy
cannot refuse a chunk: admission, load or recompute, lazy store and our series need :mod:`the spec
<autotune_policies.engines.vllm.spec>`. What remains is the order of eviction, with live reload.

The engine's model is not known here either, so the file's fingerprint is checked against the engine's version only.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from vllm.logger import init_logger

from autotune.core.types import Admission
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.settings import POLICY_VARIABLE
from autotune_policies.engines.live.source import EngineFacts, PolicySource
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.facts import engine_version
from autotune_policies.engines.vllm.groups import GROUP_BYTES, ChunkGroups
from autotune_policies.engines.vllm.policy import RankCachePolicy

logger = init_logger("vllm.kv_autotune")

_RERANKED_PER_CALL = 512
_UNKNOWN_TOKENS = 512


class AutotuneCachePolicy(RankCachePolicy):
    """Order of eviction by the policy in the file that ``KV_AUTOTUNE_POLICY`` names.

    Where a chunk stands in its prompt is told by vLLM from 0.31 on. Before that every chunk counts as the first of its
    prompt, and the recency of chunks is renewed whenever vLLM touches them.

    Args:
        cache_capacity: Chunks that the pool holds.
    """

    def __init__(self, cache_capacity: int) -> None:
        index = HostIndex(cache_capacity, _UNKNOWN_TOKENS, HostRules.lru())
        super().__init__(cache_capacity, index, ChunkGroups({0: _UNKNOWN_TOKENS}, None), _log_fault)
        path = os.environ.get(POLICY_VARIABLE)
        self._source = PolicySource(
            Path(path).absolute() if path else None, EngineFacts("vllm", engine_version()), None
        )
        self._chunk_tokens = 0
        self._follow_policy()
        if self._index is not None:
            index.finish_swap()

    def touch(self, keys: Iterable[bytes], req_context: Any = None) -> None:
        """Chunks are in use, first one first; vLLM from 0.31 on does not call this."""
        self._follow_policy()
        keys = list(keys)
        self.refresh(reversed(keys), set(keys))

    def on_store_miss(self, keys: Iterable[bytes], req_context: Any) -> None:
        """Chunks are about to be stored: note where they stand."""
        self._follow_policy()
        if self._index is not None:
            try:
                self._note_places(list(keys), req_context)
            except Exception as fault:
                self.fall_back("on_store_miss", fault)

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[bytes]],
        insertion_only_keys: Collection[bytes],
        reused_keys: Collection[bytes],
        req_context: Any,
    ) -> None:
        """A request ends: its chunks are refreshed, deepest first."""
        self._follow_policy()
        super().on_request_finished(key_groups, insertion_only_keys, reused_keys, req_context)

    def _note_places(self, keys: Sequence[bytes], req_context: Any) -> None:
        """Parent and depth of missing chunks, as far as the chunk before each is among them.

        The very first chunk that an engine offers is the first of a prompt, so its position is the length of a chunk.
        """
        positions = [compat.key_position(req_context, key) for key in keys]
        if not keys or positions[0] is None:
            return
        if not self._chunk_tokens:
            self._chunk_tokens = positions[0]
            if self._index is not None and not self._index.residents:
                self._index = HostIndex(self.cache_capacity, self._chunk_tokens, self._index.rules)
        at: dict[tuple[bytes, int], bytes] = {}
        for key, position in zip(keys, positions, strict=True):
            depth = max(0, (position or 0) // self._chunk_tokens - 1)
            self.lineage[key] = at.get((key[-GROUP_BYTES:], depth - 1)), depth
            at[key[-GROUP_BYTES:], depth] = key

    def _follow_policy(self) -> None:
        index = self._index
        if index is None:
            return
        try:
            change = self._source.poll(self._now_ns())
            if change is not None:
                (logger.warning if change.outcome.is_trouble else logger.info)("kv-autotune: %s", change)
            if change is not None and change.outcome.changes_rules:
                rules = change.rules
                if rules.admission is not Admission.ALL:
                    logger.warning(
                        "kv-autotune: admission '%s' needs AutotuneOffloadingSpec; here every chunk is stored",
                        rules.admission.value,
                    )
                if rules.learned is not None:
                    logger.warning(
                        "kv-autotune: a learned policy needs AutotuneOffloadingSpec and AutotuneConnector; here the "
                        "host is ordered by LRU"
                    )
                    rules = rules.without_learning()
                if rules.host_write is not None:
                    logger.warning(
                        "kv-autotune: the write budget of the policy (budgets.host_write) needs "
                        "AutotuneOffloadingSpec; here every chunk is stored"
                    )
                index.begin_swap(rules)
            index.advance_swap(_RERANKED_PER_CALL)
        except Exception as fault:
            self.fall_back("follow_policy", fault)


def _log_fault(during: str, fault: Exception) -> None:
    logger.error(
        "kv-autotune: a fault in %s; this engine goes on with plain LRU until it is restarted.", during, exc_info=fault
    )
