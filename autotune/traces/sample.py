"""Format ``sample``: the traces that come with the package, so that everything can be tried at once.

``sample:conversation`` and ``sample:synthetic`` are the first 60 % of two Mooncake traces; source and licence stand
beside them in ``autotune_configs/traces/SOURCE.md``.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces import mooncake
from autotune.traces.options import reader

FILES = {
    "conversation": "conversation_trace.first60.jsonl.gz",
    "synthetic": "synthetic_trace.first60.jsonl.gz",
}


@reader
def read(paths: list[str], *, on_error: str = "fail") -> Trace:
    """Read one of the bundled traces.

    Args:
        paths: One name: ``conversation`` or ``synthetic``.
        on_error: As for every reader.

    Raises:
        TraceError: there is no such sample, or more than one was asked for.
    """
    known = ", ".join(sorted(FILES))
    if len(paths) != 1:
        remedy = f"give one of {known}; their block ids do not belong together"
        raise TraceError("samples are read one at a time", got=f"{len(paths)} names", remedy=remedy)
    name = paths[0]
    if name not in FILES:
        raise TraceError("a sample must be one that comes with the package", got=repr(name), remedy=f"known: {known}")
    with as_file(files("autotune_configs") / "traces" / FILES[name]) as file:
        trace = mooncake.read([str(file)], on_error=on_error)
    return replace(trace, provenance=replace(trace.provenance, trace_format="sample", paths=(name,)))
