"""What collectors hand on, as requests of a recording."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.core.access import AccessRecord
from autotune.core.decide.features import EXPECTED_IDLE_S, N_FEATURES, PRIORITY, SESSION_END
from autotune.core.telemetry.events import StoredRun
from autotune.core.telemetry.wire import EpochStart, TransferRecord
from autotune.core.trace_hints import MAX_PRIORITY, NO_HINTS, RequestHints, TraceHints
from autotune.core.types import Tier
from autotune.traces.rolling.epochs import EpochFacts, EvidenceGrade, RecordedRequest
from autotune.traces.rolling.recorder import Recorder

FedRecord = EpochStart | AccessRecord | TransferRecord | StoredRun


class RecordingFeed:
    """Brings the records of one engine to a recorder, those of one grade only.

    An engine may be followed by its telemetry and by its events at once. The same requests are in both, so only one of
    them is written: events as long as there is nothing else, and telemetry for good from its first epoch on.

    Args:
        recorder: Takes them.

    Attributes:
        grade: What is written now.
        odd: Requests whose runs do not fit together; each ends an epoch.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.grade = EvidenceGrade.EVENTS_ONLY
        self._runs: list[AccessRecord] = []
        self.odd = 0

    def take(self, records: Iterable[FedRecord]) -> None:
        """Append the requests among these records; the runs of one request come together."""
        for record in records:
            if isinstance(record, AccessRecord):
                first = self._runs[0] if self._runs else None
                if first is not None and (first.epoch, first.request) != (record.epoch, record.request):
                    self._finish()
                self._runs.append(record)
                continue
            self._finish()
            if isinstance(record, EpochStart):
                self._begin(record)
            elif isinstance(record, StoredRun) and self._recorder.epoch and self.grade is EvidenceGrade.EVENTS_ONLY:
                self._recorder.append(RecordedRequest(record.time_s, record.tokens, 0, record.block_ids))
        self._finish()

    def _begin(self, start: EpochStart) -> None:
        """Begin an epoch, if it is one of what is written. Marks of events name no stream."""
        if start.stream:
            self.grade = EvidenceGrade.TELEMETRY
        elif self.grade is EvidenceGrade.TELEMETRY:
            return
        self._recorder.begin_epoch(facts_of(start, self.grade))

    def _finish(self) -> None:
        runs, self._runs = self._runs, []
        if runs and self._recorder.epoch and self.grade is EvidenceGrade.TELEMETRY:
            request = request_of(runs)
            if request is None:
                self.odd += 1
                self._recorder.lose()
            else:
                self._recorder.append(request)


def facts_of(start: EpochStart, grade: EvidenceGrade) -> EpochFacts:
    """What a collector's mark says about an epoch."""
    facts = start.facts
    return EpochFacts(
        grade=grade,
        cause=start.cause,
        start_utc=start.start_utc,
        engine=facts.engine,
        model=facts.model,
        block_tokens=facts.chunk_tokens,
        kv_bytes_per_token=facts.kv_bytes_per_token,
        stream=start.stream,
    )


def request_of(runs: list[AccessRecord]) -> RecordedRequest | None:
    """One request from its runs in prefix order; ``None`` where they are not one after the other.

    A conversation is only taken for one where the client named a session: else the number that ties requests together
    is that of their first block, which strangers share.
    """
    blocks: list[int] = []
    found = {Tier.DEVICE: 0, Tier.HOST: 0}
    for run in runs:
        if run.first_depth_blocks != len(blocks):
            return None
        blocks.extend(run.block_ids)
        if run.tier is not None:
            found[Tier.DEVICE if run.tier is Tier.DEVICE else Tier.HOST] += len(run.block_ids)
    last = runs[-1]
    return RecordedRequest(
        time_s=last.time_s,
        input_tokens=sum(run.tokens for run in runs),
        output_tokens=last.features.output_tokens or 0,
        block_ids=blocks,
        session=last.chain if last.features.turn is not None else -1,
        stop_reason=last.features.stop_reason or "",
        device_blocks=found[Tier.DEVICE],
        host_blocks=found[Tier.HOST],
        hints=hints_of(runs),
    )


def hints_of(runs: Iterable[AccessRecord]) -> RequestHints:
    """What the client told of a request: it stands among the features of all its stretches, once it has ended."""
    vector = next((vector for run in runs for _, vector in run.features.runs or () if len(vector) == N_FEATURES), None)
    if vector is None:
        return NO_HINTS
    hints = RequestHints(int(vector[SESSION_END]), vector[EXPECTED_IDLE_S], min(int(vector[PRIORITY]), MAX_PRIORITY))
    return NO_HINTS if TraceHints.of([hints]).faults else hints
