"""What is remembered of requests, runs and blocks: one small object each, shared by all that refer to it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import NamedTuple

from autotune.core.decide.features import UNKNOWN

NOT_CLASSIFIED = -1


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What is known of a request when it has finished; -1 is unknown.

    Attributes:
        input_tokens: Prompt tokens.
        output_tokens: Generated tokens.
        stop: What :func:`autotune.core.decide.features.stop_code` makes of the reason why generation ended.
        session_end: Hint: 1 if the client says that the session ends here, 0 if not.
        expected_idle_s: Hint: seconds until the client expects to come back.
        priority: Hint: priority of the request.
    """

    input_tokens: int
    output_tokens: int = -1
    stop: int = -1
    session_end: int = -1
    expected_idle_s: float = UNKNOWN
    priority: int = -1


class PastRequest:
    """A request that runs of blocks still refer to.

    Attributes:
        n_blocks: Its full blocks.
        input_tokens: Its prompt tokens.
        finish_ns: When it finished.
        turn: Requests that it continues, one after the other.
        chain_gap_s: Average gap of its chain, -1 if it continues none.
    """

    __slots__ = ("chain_gap_s", "finish_ns", "input_tokens", "n_blocks", "turn")

    def __init__(self, n_blocks: int, input_tokens: int, finish_ns: int) -> None:
        self.n_blocks = n_blocks
        self.input_tokens = input_tokens
        self.finish_ns = finish_ns
        self.turn = 0
        self.chain_gap_s = UNKNOWN


class Run:
    """Consecutive blocks that share their history: the past of all of them, and the class that follows from it.

    A run lives as long as a block, or a resident of a tier, refers to it.

    Attributes:
        request: The last request that used it.
        uses: Requests that used it.
        first_ns: Start of the first of them.
        idle_ns: When the last one finished.
        gap_ns: How long it lay idle before that, -1 if it is new.
        previous_gap_ns: How long before that.
        recent_short: Uses, decayed fast.
        recent_long: Uses, decayed slowly.
        features: Its features when that request had finished.
        group: Its class, or the log odds of its reuse, as ``model`` says; an earlier model's stays known while another
            one is being prepared.
        model: Whoever classified it.
        next_group: The same, as ``next_model`` says.
        next_model: Whoever classified it last, if that is another.
    """

    __slots__ = (
        "features",
        "first_ns",
        "gap_ns",
        "group",
        "idle_ns",
        "model",
        "next_group",
        "next_model",
        "previous_gap_ns",
        "recent_long",
        "recent_short",
        "request",
        "uses",
    )

    def __init__(self, request: PastRequest, start_ns: int, idle_ns: int) -> None:
        self.request = request
        self.uses = 1
        self.first_ns = start_ns
        self.idle_ns = idle_ns
        self.gap_ns = self.previous_gap_ns = -1
        self.recent_short = self.recent_long = 1.0
        self.features: array[float] = array("d")
        self.group = self.next_group = NOT_CLASSIFIED
        self.model: object = None
        self.next_model: object = None


class PastBlock:
    """What is remembered of one block.

    Attributes:
        run: The run that it stands in; ``None`` as long as no prompt held it.
        generated: The run that it followed when it was generated; it counts as unknown until a prompt holds it.
        children: Different blocks that have continued it.
    """

    __slots__ = ("children", "generated", "run")

    def __init__(self) -> None:
        self.run: Run | None = None
        self.generated: Run | None = None
        self.children = 0


class RunSpan(NamedTuple):
    """One run of a finished request: blocks ``first`` to ``end`` (exclusive) of its prompt."""

    first: int
    end: int
    run: Run
