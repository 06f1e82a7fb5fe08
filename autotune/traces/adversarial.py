"""Format ``adversarial``: traces made to hurt policies that learn, drawn from a seed.

``adversarial:NAME`` or ``adversarial:NAME,seed=3,span_s=7200``: a name of :data:`KINDS`, and any of that kind's
parameters (see ``adversarial_kinds``). ``seed`` is 0 where it is not given. There is no file; the provenance holds
name, seed and parameters, and the hash is over the columns.

Blocks have 512 tokens and are all full. Times are exact, so no clock tick is spread.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Iterable
from dataclasses import fields, replace

import numpy as np

from autotune.core.errors import TraceError
from autotune.core.trace import UNKNOWN, Trace, TraceProvenance, dense_ids
from autotune.traces.adversarial_kinds import (
    Kind,
    Loops,
    Prompt,
    RegimeSwitch,
    ReversedPopularity,
    ScanFlood,
    SessionStorm,
    StoppingReuse,
    Trap,
)
from autotune.traces.columns import offsets
from autotune.traces.intake import checked_on_error
from autotune.traces.options import number_text, reader, whole

BLOCK_TOKENS = 512
KINDS: dict[str, Kind] = {
    "scan_flood": ScanFlood(),
    "regime_switch": RegimeSwitch(),
    "trap": Trap(),
    "loops": Loops(),
    "reversed_popularity": ReversedPopularity(),
    "stopping_reuse": StoppingReuse(),
    "session_storm": SessionStorm(),
}
_MOST_ACCESSES = 50_000_000


@reader
def read(paths: list[str], *, on_error: str = "fail") -> Trace:
    """Draw one adversarial trace.

    Args:
        paths: One ``NAME`` or ``NAME,parameter=value,...``.
        on_error: As for every reader; nothing can be malformed here.

    Raises:
        TraceError: more than one was asked for, or the name, a parameter or its value is unfit.
    """
    checked_on_error(on_error)
    if len(paths) != 1:
        raise TraceError(
            "adversarial traces are drawn one at a time",
            got=f"{len(paths)} names",
            remedy="give one; their blocks do not belong together",
        )
    name, kind, seed = _parsed(paths[0])
    return draw(name, kind, seed)


def draw(name: str, kind: Kind, seed: int) -> Trace:
    """The trace that a kind stands for; the same seed gives the same trace.

    Raises:
        TraceError: the parameters leave no request, or more block accesses than fit in memory.
    """
    prompts = sorted(_within_limit(kind.prompts(np.random.default_rng(seed))), key=lambda prompt: prompt.at_s)
    if not prompts:
        raise TraceError("an adversarial trace has requests", got=f"{name} without any", remedy="raise its parameters")
    lengths = np.array([len(prompt.blocks) for prompt in prompts], np.int64)
    ids, n_blocks = dense_ids(np.concatenate([prompt.blocks for prompt in prompts]))
    at_s = np.array([prompt.at_s for prompt in prompts])
    trace = Trace(
        arrival_s=at_s - at_s[0],
        input_tokens=(lengths * BLOCK_TOKENS).astype(np.int32),
        output_tokens=np.array([prompt.output_tokens for prompt in prompts], np.int32),
        session=np.array([prompt.session for prompt in prompts], np.int32),
        stop_reason=np.full(len(prompts), UNKNOWN, np.int32),
        block_offsets=offsets(lengths),
        block_ids=ids,
        n_blocks=n_blocks,
        block_tokens=BLOCK_TOKENS,
        provenance=TraceProvenance("adversarial", (name,), "", _options(kind, seed)),
    )
    return replace(trace, provenance=replace(trace.provenance, sha256=_sha256(trace)))


def _within_limit(prompts: Iterable[Prompt]) -> list[Prompt]:
    kept, accesses = [], 0
    for prompt in prompts:
        accesses += len(prompt.blocks)
        if accesses > _MOST_ACCESSES:
            raise TraceError(
                f"an adversarial trace has at most {_MOST_ACCESSES:,} block accesses",
                got="more",
                remedy="lower its parameters",
            )
        kept.append(prompt)
    return kept


def _parsed(text: str) -> tuple[str, Kind, int]:
    name, *pairs = text.split(",")
    if name not in KINDS:
        raise TraceError(
            "an adversarial trace is one of those that exist",
            got=repr(name),
            remedy=_hint(name, KINDS),
        )
    kind, seed = KINDS[name], 0
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise TraceError("parameters follow the name as ,parameter=value", got=repr(pair))
        number = _number(key, value)
        if key == "seed":
            seed = whole("seed", int(number) if number.is_integer() else number)
        else:
            kind = _with(name, kind, key, number)
    return name, kind, seed


def _with(name: str, kind: Kind, key: str, number: float) -> Kind:
    """The kind with one parameter changed; counts are whole numbers."""
    types = {field.name: field.type for field in fields(kind)}
    if key not in types:
        raise TraceError(
            f"a parameter of {name} is one that it has", got=repr(key), remedy=_hint(key, [*types, "seed"])
        )
    if types[key] == "int":
        return replace(kind, **{key: whole(key, int(number) if number.is_integer() else number, low=1, high=10**6)})
    if not 0.0 < number <= 1e9:
        raise TraceError(f"{key} of {name} must be a number from above 0 to 1e9", got=number_text(number))
    return replace(kind, **{key: number})


def _number(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise TraceError(f"{key} must be a finite number", got=repr(text), remedy="correct it")
    return number


def _hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"known: {', '.join(names)}"


def _options(kind: Kind, seed: int) -> tuple[tuple[str, str], ...]:
    given = {field.name: number_text(getattr(kind, field.name)) for field in fields(kind)}
    return tuple(sorted({**given, "seed": str(seed)}.items()))


def _sha256(trace: Trace) -> str:
    digest = hashlib.sha256()
    for column in (trace.arrival_s, trace.input_tokens, trace.output_tokens, trace.session, trace.block_ids):
        digest.update(column.tobytes())
    return digest.hexdigest()
