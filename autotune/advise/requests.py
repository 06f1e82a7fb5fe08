"""The requests that a policy was judged on: finding them again, and telling them from others."""

from __future__ import annotations

from autotune.core.errors import TraceError
from autotune.core.policy import Provenance, TraceSource
from autotune.core.trace import Trace
from autotune.traces.sample import FILES

_SAMPLE_FORMATS = ("sample", "mooncake")  # what the bundled files are read as
_SHOWN_NAMES = 3
_SHOWN_DIGITS = 12


def bundled_trace(provenance: Provenance) -> Trace | None:
    """The sample trace with the content that a policy was judged on; ``None`` if none that is bundled has it."""
    source = provenance.trace
    if source.format not in _SAMPLE_FORMATS or source.options:
        return None
    samples = (Trace.open(f"sample:{name}") for name in FILES)
    return next((trace for trace in samples if trace.provenance.sha256 == source.sha256), None)


def missing_trace(provenance: Provenance) -> TraceError:
    """The error that says which requests to give."""
    source = provenance.trace
    how = f" (options: {_options(source)})" if source.options else ""
    return TraceError(
        f"verifying needs the {source.n_requests:,} requests that the policy was judged on",
        got=f"no trace, and none that is bundled has the content sha256 {source.sha256}",
        remedy=f"give --trace {source.format}:PATH for {_names(source)}{how}, or a recording made from that",
    )


def differences(provenance: Provenance, block_tokens: int, trace: Trace) -> tuple[str, ...]:
    """In what a trace differs from the requests that a policy was judged on; empty if they are the same.

    File names do not count, since the content has a hash.

    Args:
        provenance: Of the policy.
        block_tokens: Tokens per block of the trace that it was judged on.
        trace: The requests at hand.
    """
    expected, got = provenance.trace, TraceSource.of(trace)
    facts = (
        ("sha256 of the content", _short(expected.sha256), _short(got.sha256), expected.sha256 == got.sha256),
        ("requests", f"{expected.n_requests:,}", f"{got.n_requests:,}", expected.n_requests == got.n_requests),
        ("tokens per block", block_tokens, trace.block_tokens, block_tokens == trace.block_tokens),
        ("reader options", _options(expected), _options(got), expected.options == got.options),
        ("rows left out", _skipped(expected), _skipped(got), expected.skipped_rows == got.skipped_rows),
    )
    return tuple(f"{what}: {was} expected, {now} given" for what, was, now, same in facts if not same)


def _short(sha256: str) -> str:
    return sha256[:_SHOWN_DIGITS] or "none"


def _options(source: TraceSource) -> str:
    return ", ".join(f"{option.name}={option.value}" for option in source.options) or "none"


def _skipped(source: TraceSource) -> str:
    return ", ".join(f"{row.rows:,} x {row.fault}" for row in source.skipped_rows) or "none"


def _names(source: TraceSource) -> str:
    more = len(source.paths) - _SHOWN_NAMES
    names = ", ".join(source.paths[:_SHOWN_NAMES]) or "the files it was read from"
    return f"{names} and {more:,} more" if more > 0 else names
