"""What is known about a run of blocks when the request that used it has finished: the inputs of the reuse model.

A *run* is the longest stretch of a request's blocks that share their history. An id stands for a block and its whole
prefix, so whoever used a deeper block used the shallower ones too, and equal use counts mean equal histories. All
features are float64, in tokens and seconds so that they hold for every block size; ``UNKNOWN`` stands for what nobody
told. They are computed here once, from plain numbers, for the compiled simulator and for the engine alike.
"""

from __future__ import annotations

from autotune.core.decide.arithmetic import exp2_exactly_rounded_ops

UNKNOWN = -1.0
NS_PER_S = 1_000_000_000
SHORT_S, LONG_S = 60.0, 600.0  # half-lives of the two decayed use counts
EWMA_WEIGHT = 0.5

FEATURES = (
    "depth_tokens",
    "run_tokens",
    "tail_tokens",
    "request_tokens",
    "new_tokens",
    "growth_tokens",
    "known_frac",
    "output_tokens",
    "stop_code",
    "uses",
    "gap_s",
    "previous_gap_s",
    "since_first_s",
    "recent_60",
    "recent_600",
    "children",
    "siblings",
    "uses_to_parent",
    "turn",
    "chain_gap_s",
    "chain_gap_ewma_s",
    "session_end",
    "expected_idle_s",
    "priority",
)
N_FEATURES = len(FEATURES)
(
    DEPTH_TOKENS,
    RUN_TOKENS,
    TAIL_TOKENS,
    REQUEST_TOKENS,
    NEW_TOKENS,
    GROWTH_TOKENS,
    KNOWN_FRAC,
    OUTPUT_TOKENS,
    STOP_CODE,
    USES,
    GAP_S,
    PREVIOUS_GAP_S,
    SINCE_FIRST_S,
    RECENT_60,
    RECENT_600,
    CHILDREN,
    SIBLINGS,
    USES_TO_PARENT,
    TURN,
    CHAIN_GAP_S,
    CHAIN_GAP_EWMA_S,
    SESSION_END,
    EXPECTED_IDLE_S,
    PRIORITY,
) = range(N_FEATURES)

MEANINGS = {
    "depth_tokens": "tokens before the run",
    "run_tokens": "tokens of the run",
    "tail_tokens": "tokens of the request after the run",
    "request_tokens": "prompt tokens of the request",
    "new_tokens": "prompt tokens that were never seen before",
    "growth_tokens": "prompt tokens more than those of the request that this one continues",
    "known_frac": "share of the request's blocks that were seen before",
    "output_tokens": "generated tokens",
    "stop_code": "why generation ended: 0 stop, 1 length, 2 tool call, 3 abort, 4 other",
    "uses": "requests that used the run, this one included",
    "gap_s": "seconds that the run lay idle before this request",
    "previous_gap_s": "seconds that it lay idle before that",
    "since_first_s": "seconds since its first use",
    "recent_60": "uses, halved every 60 s",
    "recent_600": "uses, halved every 600 s",
    "children": "different blocks that have continued the run",
    "siblings": "different blocks that have continued the block before the run",
    "uses_to_parent": "its uses over those of the run before it",
    "turn": "requests that this one continues, one after the other",
    "chain_gap_s": "seconds since the request that this one continues finished",
    "chain_gap_ewma_s": "those seconds, averaged over the chain, the newest counting half",
    "session_end": "hint: 1 if the client says that the session ends here, 0 if not",
    "expected_idle_s": "hint: seconds until the client expects to come back",
    "priority": "hint: priority of the request",
}

_STOPS = {
    "stop": 0,
    "end_turn": 0,
    "eos": 0,
    "stop_sequence": 0,
    "length": 1,
    "max_tokens": 1,
    "tool_use": 2,
    "tool_calls": 2,
    "function_call": 2,
    "abort": 3,
    "aborted": 3,
    "error": 3,
}
OTHER_STOP = 4


def stop_code(reason: str | None) -> int:
    """Code of an engine's own word for why generation ended; -1 if it said nothing."""
    return -1 if reason is None else _STOPS.get(reason.lower(), OTHER_STOP)


def seconds_of(ns: int) -> float:
    """Nanoseconds as seconds; a negative number of them is unknown."""
    return ns / NS_PER_S if ns >= 0 else UNKNOWN


def recent_uses(before: float, elapsed_ns: int, half_life_s: float) -> float:
    """A decayed use count after one use more.

    Args:
        before: The count at the last use; 0 if there was none.
        elapsed_ns: Nanoseconds since then.
        half_life_s: Seconds in which a use loses half its weight.
    """
    if before <= 0.0:
        return 1.0
    return 1.0 + before * exp2_exactly_rounded_ops(-(elapsed_ns / NS_PER_S) / half_life_s)


def chain_average_s(average_s: float, gap_s: float) -> float:
    """Average gap of a chain after one gap more; the first gap is its own average."""
    if average_s < 0.0:
        return gap_s
    return EWMA_WEIGHT * gap_s + (1.0 - EWMA_WEIGHT) * average_s
