"""Traces that the benchmarks run on: the bundled samples, and others where a folder of them is given."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from autotune.core.trace import Trace

FOLDER_VARIABLE = "KV_AUTOTUNE_TRACES"
AGENTIC_SPAN_S = 21_600.0
_LMCACHE = ("miniswe", "magagent", "taubench")
_IDLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Input:
    """A trace by name, read when it is asked for."""

    name: str
    open: Callable[[], Trace]


def all_inputs() -> list[Input]:
    """The samples, and what the folder named by ``KV_AUTOTUNE_TRACES`` holds beside them.

    The folder may hold ``weka_agentic/*.json.gz`` (sessions of kv-cache-tester, merged over six hours and coarsened to
    blocks of 512 tokens) and ``lmcache_agent/{miniswe,magagent,taubench}/``.
    """
    inputs = [Input(name, partial(sample, name)) for name in ("conversation", "synthetic")]
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return inputs
    if (Path(folder) / "weka_agentic").is_dir():
        inputs.append(Input("agentic", partial(_agentic, Path(folder) / "weka_agentic")))
    for name in _LMCACHE:
        if (Path(folder) / "lmcache_agent" / name).is_dir():
            inputs.append(Input(name, partial(Trace.open, f"lmcache-agent:{folder}/lmcache_agent/{name}/*")))
    return inputs


def sample(name: str) -> Trace:
    """A bundled sample."""
    return Trace.open(f"sample:{name}")


def long_stream(min_accesses: int) -> Input:
    """A long trace: the agentic sessions where they are given, else the conversation sample several times over."""
    agentic = [one for one in all_inputs() if one.name == "agentic"]
    return agentic[0] if agentic else Input("conversation, repeated", partial(_repeated_sample, min_accesses))


def repeated(trace: Trace, times: int) -> Trace:
    """Copies of a trace one after the other, each with blocks of its own."""
    copies = range(times)
    pause_s = trace.span_s + _IDLE_S
    starts = trace.block_offsets[:-1]
    return replace(
        trace,
        arrival_s=np.concatenate([trace.arrival_s + copy * pause_s for copy in copies]),
        input_tokens=np.tile(trace.input_tokens, times),
        output_tokens=np.tile(trace.output_tokens, times),
        session=np.tile(trace.session, times),
        stop_reason=np.tile(trace.stop_reason, times),
        block_offsets=np.append(
            np.concatenate([starts + copy * trace.n_accesses for copy in copies]), times * trace.n_accesses
        ),
        block_ids=np.concatenate([trace.block_ids + np.int32(copy * trace.n_blocks) for copy in copies]),
        n_blocks=times * trace.n_blocks,
    )


def _agentic(folder: Path) -> Trace:
    return Trace.open(f"kv-cache-tester:{folder}/*.json.gz", merge_span_s=AGENTIC_SPAN_S, seed=0, block_tokens=512)


def _repeated_sample(min_accesses: int) -> Trace:
    trace = sample("conversation")
    return repeated(trace, -(-min_accesses // trace.n_accesses))
