"""The past of an engine's chunks: kept while a learned rule is in force, or somebody learns from what is recorded."""

from __future__ import annotations

from autotune.core.decide.features import stop_code
from autotune.core.learned import LearnedRules, RequestFacts, RunHistory, RunSpan
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.vllm.features import FinishedRequest


class EnginePast:
    """Remembers what finished requests did, for both tiers.

    Args:
        chunk_tokens: Tokens of a chunk.
        host_chunks: Chunks that the host holds.

    Attributes:
        history: What is remembered; ``None`` = nothing, because nobody needs it.
    """

    def __init__(self, chunk_tokens: int, host_chunks: int) -> None:
        self.history: RunHistory[bytes] | None = None
        self._chunk_tokens = chunk_tokens
        self._host_chunks, self._device_chunks = host_chunks, 0
        self._history_tokens = 0
        self._learned: LearnedRules | None = None

    def keep(self, index: HostIndex) -> None:
        """Remember from now on."""
        if self.history is None:
            self.history = RunHistory(self._chunk_tokens, self._limit())
        index.past = self.history

    def follow(self, rules: HostRules, device: HostRules | None, index: HostIndex) -> None:
        """Other rules: what is needed of the past by them. What is remembered already stays."""
        learned = rules.learned or (None if device is None else device.learned)
        self._learned = learned
        if learned is not None:
            self._history_tokens = rules.history_tokens
            self.keep(index)
            self._bound()

    def tell_device(self, n_chunks: int) -> None:
        """The device holds so many chunks."""
        self._device_chunks = n_chunks
        self._bound()

    def _limit(self) -> int:
        return self._history_tokens // self._chunk_tokens or self._host_chunks + self._device_chunks

    def _bound(self) -> None:
        if self.history is not None:
            self.history.limit_to(self._limit())

    def observe(self, request: FinishedRequest, now_ns: int) -> list[RunSpan]:
        """A request has ended: its runs, each with its class where a learned rule is in force."""
        if self.history is None:
            return []
        start_ns = request.start_ns if 0 < request.start_ns <= now_ns else now_ns
        spans = self.history.observe(request.keys, facts_of(request), start_ns, now_ns, request.generated)
        if self._learned is not None:
            for span in spans:
                self._learned.classifier.group_of(span.run)
        return spans

    def clear(self) -> None:
        """All tiers were emptied, so that nothing that comes may be joined with what was."""
        if self.history is not None:
            self.history.clear()


def facts_of(request: FinishedRequest) -> RequestFacts:
    """What the learned rule takes in of a finished request."""
    hints = request.hints
    return RequestFacts(
        input_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        stop=stop_code(request.finish_reason),
        session_end=hints.session_end,
        expected_idle_s=hints.expected_idle_s,
        # The engine's own default is 0 for all, which tells nothing.
        priority=hints.priority if hints.priority >= 0 or request.priority <= 0 else request.priority,
    )
