"""Traces by name and seed for the comparison with peers, and what the seed varies in each."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import inputs

from autotune.core.trace import Trace
from autotune.sim.queueing import spread_arrivals
from autotune.traces.adversarial import KINDS
from autotune.traces.sample import FILES

_LMCACHE = ("miniswe", "magagent", "taubench")


@dataclass(frozen=True, slots=True)
class Seeded:
    """A trace that a seed completes.

    Attributes:
        name: As on the command line.
        varies: What the seed varies, in words.
        open: Reads or draws it.
    """

    name: str
    varies: str
    open: Callable[[int], Trace]


def seeded_traces() -> dict[str, Seeded]:
    """The samples and the adversarial traces, and what the folder named by ``KV_AUTOTUNE_TRACES`` holds beside them.

    The folder may hold ``mooncake/*.jsonl*``, ``weka_agentic/*.json.gz`` and
    ``lmcache_agent/{miniswe,magagent,taubench}/``. Files of ``mooncake/`` that the package carries itself are passed
    over.
    """
    found = [Seeded(name, _SPREAD, partial(_spread, f"sample:{name}")) for name in FILES]
    folder = os.environ.get(inputs.FOLDER_VARIABLE)
    if folder:
        found += _in_folder(Path(folder))
    found += [Seeded(name, "every draw of the trace", partial(_adversarial, name)) for name in KINDS]
    return {one.name: one for one in found}


_SPREAD = "the spread of arrivals inside a tick of the trace's clock"


def _in_folder(folder: Path) -> list[Seeded]:
    found = [
        Seeded(f"mooncake {file.name.partition('.')[0]}", _SPREAD, partial(_spread, f"mooncake:{file}"))
        for file in sorted(folder.glob("mooncake/*.jsonl*"))
        if file.name not in FILES.values()
    ]
    if (folder / "weka_agentic").is_dir():
        found.append(Seeded("agentic", "where each session begins", partial(_agentic, folder / "weka_agentic")))
    for name in _LMCACHE:
        if (folder / "lmcache_agent" / name).is_dir():
            source = f"lmcache-agent:{folder}/lmcache_agent/{name}/*"
            found.append(Seeded(name, _SPREAD, partial(_spread, source)))
    return found


@lru_cache(maxsize=1)
def opened(name: str, seed: int) -> Trace:
    """A trace by name and seed; the last one stays in memory, for all cells of a trace follow each other."""
    return seeded_traces()[name].open(seed)


def _spread(source: str, seed: int) -> Trace:
    trace = Trace.open(source)
    arrival_s = spread_arrivals(trace, 1.0, seed)
    return replace(trace, arrival_s=arrival_s - arrival_s[0])


def _agentic(folder: Path, seed: int) -> Trace:
    return Trace.open(
        f"kv-cache-tester:{folder}/*.json.gz", merge_span_s=inputs.AGENTIC_SPAN_S, seed=seed, block_tokens=512
    )


def _adversarial(name: str, seed: int) -> Trace:
    return Trace.open(f"adversarial:{name},seed={seed}")
