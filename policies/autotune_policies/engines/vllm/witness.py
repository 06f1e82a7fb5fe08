"""What was decided and what requests did, told to the decision log and to the telemetry, where they are switched on."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autotune.core.access import AccessFeatures, RunFeatures
from autotune.core.learned import RunSpan
from autotune.core.reuse import SCORE_UNIT
from autotune.core.types import Tier
from autotune_policies.engines.live.decision_log import Action, DecisionLog
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.records import (
    AccessRecorder,
    Direction,
    RequestAccess,
    Run,
    StreamFacts,
    Transfer,
)
from autotune_policies.engines.live.resident import IN_USE, Resident
from autotune_policies.engines.live.settings import EngineSettings
from autotune_policies.engines.vllm.facts import PoolFacts
from autotune_policies.engines.vllm.features import FinishedRequest
from autotune_policies.engines.vllm.metrics import LostRecord, PolicyCounters

_MAX_SESSIONS = 65_536
_CHAIN_BITS = 2**63 - 1


class Witness:
    """Passes on decisions and accesses; without a log and a recorder it does nothing.

    Args:
        settings: What the user set.
        facts: The engine and its pool.
        counters: Where lost records are counted.
        now_ns: Monotonic nanoseconds.
    """

    def __init__(
        self, settings: EngineSettings, facts: PoolFacts, counters: PolicyCounters, now_ns: Callable[[], int]
    ) -> None:
        self._counters = counters
        self._now_ns = now_ns
        self._chunk_tokens = min(group.chunk_tokens for group in facts.groups)
        self._chunk_bytes = self._chunk_tokens * facts.kv_bytes_per_token
        self._n_requests = 0
        self._turns: dict[str, int] = {}
        self.recorder: AccessRecorder | None = None
        self.log: DecisionLog | None = None
        if settings.telemetry is not None:
            engine = f"vllm {facts.engine_version}"
            stream = StreamFacts(
                engine, facts.model, self._chunk_tokens, facts.kv_bytes_per_token, n_groups=len(facts.groups)
            )
            self.recorder = AccessRecorder(stream, settings.telemetry, settings.telemetry_max_bytes)
        if settings.decision_log is not None:
            self.log = DecisionLog(
                settings.decision_log, settings.decision_log_sample_frac, settings.decision_log_max_bytes
            )

    # Decisions

    def offered(
        self, index: HostIndex, stored: Sequence[bytes], evicted: Sequence[bytes], refused: Sequence[bytes]
    ) -> None:
        """An offer of chunks was decided about; told after the places were given and before the refused are ghosts."""
        if self.log is None:
            return
        for action, keys, reason in (
            (Action.EVICT, evicted, "smallest rank, its place was needed"),
            (Action.OFFLOAD, stored, "admitted"),
            (Action.REFUSE, refused, _why_refused(index)),
        ):
            for key in keys:
                if self.log.wants(key):
                    self._log(self.log, index, key, action, reason)

    def load_decided(self, index: HostIndex, keys: Sequence[bytes], reason: str | None) -> None:
        """A run that the host holds is loaded, or for a reason computed again."""
        if self.log is not None:
            action = Action.LOAD if reason is None else Action.RECOMPUTE
            for key in keys:
                if self.log.wants(key):
                    self._log(self.log, index, key, action, reason or "loading takes less time")

    def _log(self, log: DecisionLog, index: HostIndex, key: bytes, action: Action, reason: str) -> None:
        resident = index.residents.get(key)
        ghost = index.ghosts.get(key)
        frequency = resident.frequency if resident is not None else ghost[0] if ghost is not None else 1.0
        rules = index.rules
        log.log(
            key,
            action,
            f"{reason}; {_what_counts(index, key, resident, frequency)}",
            rank_ns=resident.rank if resident is not None and rules.weight_ns > 0.0 else None,
            value_s=rules.expected_s(frequency, resident.depth, self._chunk_tokens) if resident is not None else None,
            price_s_per_byte=rules.prices.host_s_per_byte,
        )

    # Accesses

    @property
    def records(self) -> bool:
        """Whether accesses are told to anybody."""
        return self.recorder is not None

    def features(self, index: HostIndex, key: bytes) -> AccessFeatures:
        """What is known of the run that a chunk begins, at the moment of deciding about it."""
        usage = index.usage(key, self._now_ns())
        return AccessFeatures(frequency=1.0) if usage is None else AccessFeatures(frequency=usage[0], gap_s=usage[1])

    def finished(
        self,
        request: FinishedRequest,
        known: dict[Tier | None, AccessFeatures],
        spans: Sequence[RunSpan] = (),
    ) -> None:
        """A request has ended.

        Args:
            request: What it did.
            known: What was known of its runs when they were decided about, by where they were found.
            spans: Its runs with one history each, and their features.
        """
        if self.recorder is None or not request.keys:
            return
        self._n_requests += 1
        found = request.device_chunks + request.host_chunks
        common = AccessFeatures(
            hit_frac=found / len(request.keys),
            output_tokens=request.output_tokens,
            stop_reason=request.finish_reason,
            turn=self._turn(request.session_id),
        )
        runs, first = [], 0
        for tier, n in (
            (Tier.DEVICE, request.device_chunks),
            (Tier.HOST, request.host_chunks),
            (None, len(request.keys) - found),
        ):
            if n > 0:
                features = replace(common, runs=_histories(spans, first, first + n))
                runs.append(self._run(request, tier, first, n, known.get(tier), features))
                first += n
        self.recorder.access(RequestAccess(self._now_ns(), self._n_requests, _chain(request), tuple(runs)))

    def _run(
        self,
        request: FinishedRequest,
        tier: Tier | None,
        first: int,
        n: int,
        known: AccessFeatures | None,
        common: AccessFeatures,
    ) -> Run:
        start = first * self._chunk_tokens
        tokens = (request.prompt_tokens if tier is None else start + n * self._chunk_tokens) - start
        features = common if known is None else replace(common, frequency=known.frequency, gap_s=known.gap_s)
        return Run(
            keys=tuple(request.keys[first : first + n]),
            first_depth=first,
            tokens=max(tokens, 0),
            tier=tier,
            moved_bytes=n * self._chunk_bytes if tier is Tier.HOST else 0,
            seconds=request.prefill_s if tier is None else 0.0,
            features=features,
        )

    def _turn(self, session_id: str | None) -> int | None:
        if session_id is None:
            return None
        turn = self._turns.pop(session_id, -1) + 1
        if len(self._turns) >= _MAX_SESSIONS:
            del self._turns[next(iter(self._turns))]
        self._turns[session_id] = turn
        return turn

    def transferred(self, is_load: bool, moved_bytes: int, seconds: float) -> None:
        """Copies of one direction have finished."""
        if self.recorder is not None:
            direction = Direction.LOAD if is_load else Direction.STORE
            self.recorder.transfer(Transfer(self._now_ns(), direction, moved_bytes, seconds))

    def reset(self) -> None:
        """The host was emptied: nobody may join what comes with what was."""
        if self.recorder is not None:
            self.recorder.begin_epoch()

    # Bookkeeping

    def count_lost(self) -> None:
        """Move what was lost since the last call into the counters."""
        outputs: tuple[tuple[LostRecord, Any], ...] = (
            (LostRecord.TELEMETRY, self.recorder),
            (LostRecord.DECISION_LOG, self.log),
        )
        for output, writer in outputs:
            if writer is not None:
                self._counters.lost_records[output] += writer.take_lost()

    def close(self) -> None:
        """Write what waits and let go of files and sockets."""
        for writer in (self.recorder, self.log):
            if writer is not None:
                writer.close()


def _why_refused(index: HostIndex) -> str:
    over_budget = index.writes is not None and index.writes.refused
    return "the write budget" if over_budget else f"admission {index.rules.admission.value}"


def _what_counts(index: HostIndex, key: bytes, resident: Resident | None, frequency: float) -> str:
    """What a chunk is ranked by, apart from its depth."""
    learned, past = index.rules.learned, index.past
    if learned is None or past is None:
        return f"{frequency:.2f} accesses"
    run = past.run_of(key) if resident is None else resident.run
    if run is None:
        return "its past is not known"
    if run is IN_USE:
        return "its request has not finished"
    group = learned.classifier.group_of(run)
    return f"log odds {group * SCORE_UNIT:.2f}" if learned.scale_ns > 0.0 else f"class {group}"


def _histories(spans: Sequence[RunSpan], start: int, end: int) -> tuple[RunFeatures, ...] | None:
    """What was known of chunks ``start`` to ``end``, cut where their histories differ; ``None`` = nothing."""
    return (
        tuple(
            (min(span.end, end) - max(span.first, start), tuple(span.run.features))
            for span in spans
            if max(span.first, start) < min(span.end, end)
        )
        or None
    )


def _chain(request: FinishedRequest) -> int:
    """A number for the conversation: of its session if the client named one, else of its first chunk."""
    if request.session_id is not None:
        name = request.session_id.encode()
        return (zlib.crc32(name) << 32 | zlib.adler32(name)) & _CHAIN_BITS
    return int.from_bytes(request.keys[0][:8], "big") & _CHAIN_BITS
