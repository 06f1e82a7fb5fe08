"""Which technique answers the pressure at hand, which does not, on what evidence and at what risk."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.advise.prefix import Divergence, Grade
from autotune.advise.pressure import Observations
from autotune.advise.techniques import Need, rule_of, rules
from autotune.core.units import GIB
from autotune.geometry.kinds import Technique

_LOW_HIT_FRAC = 0.2
_REUSE_WORTH_FRAC = 0.1
_IDLE_FRAC = 0.3
_RETURN_FRAC = 0.05
_READ_FRAC = 0.5
_LONG_CONTEXT_TOKENS = 8192
_PLACE_FRAC = 0.1


class Pressure(StrEnum):
    """What is short.

    ``RUNNING``: running requests alone take more than the device's KV. ``IDLE``: blocks that nobody uses at the moment
    fill the device, and come back later. ``BANDWIDTH``: a decode step reads more KV than weights. ``PREFIX``: prompts
    that would be equal but for one place are computed again. ``NO_REUSE``: hardly any block is asked for twice.
    """

    RUNNING = "running requests"
    IDLE = "idle blocks"
    BANDWIDTH = "bandwidth of device memory"
    PREFIX = "unstable prefixes"
    NO_REUSE = "no reuse"


class Answer(StrEnum):
    """Whether a technique helps.

    ``FIRST``: try it first. ``LATER``: it helps, but something less risky comes first. ``NO``: it does not help against
    this. ``MODEL``: only another model has it.
    """

    FIRST = "first"
    LATER = "later"
    NO = "no"
    MODEL = "another model"


@dataclass(frozen=True, slots=True)
class Finding:
    """One pressure and what shows it."""

    pressure: Pressure
    evidence: str


@dataclass(frozen=True, slots=True)
class TechniqueAdvice:
    """What to think of one technique here.

    Attributes:
        technique: Which.
        answer: Whether it helps.
        because: Why.
        risk: What may go wrong.
    """

    technique: Technique
    answer: Answer
    because: str
    risk: str


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice and what it rests on.

    Attributes:
        observations: What was measured.
        findings: Pressures, the first the most urgent; empty where nothing is short.
        techniques: All twelve, those to try first in front.
        notes: What is easily misread.
    """

    observations: Observations
    findings: tuple[Finding, ...]
    techniques: tuple[TechniqueAdvice, ...]
    notes: tuple[str, ...]


def advise(seen: Observations) -> Advice:
    """Advice from what was observed, by rules that stand in the documentation."""
    findings = _findings(seen)
    pressures = frozenset(finding.pressure for finding in findings)
    order = list(Answer)
    techniques = sorted(
        (_technique(rule.technique, seen, pressures) for rule in rules()), key=lambda a: order.index(a.answer)
    )
    return Advice(seen, findings, tuple(techniques), _notes(seen))


def unstable_places(seen: Observations) -> tuple[Divergence, ...]:
    """Places where enough requests diverge that are proven or suspected to be equal otherwise."""
    return tuple(p for p in seen.places if p.grade is not Grade.OPEN and p.request_frac >= _PLACE_FRAC)


def _findings(seen: Observations) -> tuple[Finding, ...]:
    found = []
    if seen.running_bytes > seen.device_bytes or seen.requests_short:
        found.append(Finding(Pressure.RUNNING, _running_words(seen)))
    found += [Finding(Pressure.PREFIX, _place_words(place)) for place in unstable_places(seen)]
    if _idle_fills(seen):
        found.append(Finding(Pressure.IDLE, _idle_words(seen)))
    if seen.read_frac is not None and seen.read_frac > _READ_FRAC:
        found.append(Finding(Pressure.BANDWIDTH, f"{_percent(seen.read_frac)} of what a decode step reads is KV"))
    reuse = seen.unbounded_hit_frac
    if reuse is not None and reuse < _REUSE_WORTH_FRAC and not unstable_places(seen):
        words = f"a cache without limit would find only {_percent(seen.unbounded_hit_frac)} of all accesses"
        found.append(Finding(Pressure.NO_REUSE, words))
    return tuple(found)


def _running_words(seen: Observations) -> str:
    if seen.running_bytes > seen.device_bytes:
        return _sizes("running requests hold", seen.running_bytes, seen)
    return f"{seen.requests_short:,} requests were preempted or wait for space"


def _idle_words(seen: Observations) -> str:
    if seen.host_hit_frac is not None:
        return f"the host has {_percent(seen.host_hit_frac)} of the tokens that are not found on the device"
    hits = (
        f"LRU finds {_percent(seen.device_hit_frac)} of all accesses, a cache without limit "
        f"{_percent(seen.unbounded_hit_frac)}"
    )
    if seen.idle_frac is None or seen.idle_frac < _IDLE_FRAC:
        return f"blocks are evicted before they come back: {hits}"
    return (
        f"{_percent(seen.idle_frac)} of the blocks on the device are unused for {seen.idle_s:g} s or longer, "
        f"{_percent(seen.idle_return_frac)} of those come back; {hits}"
    )


def _idle_fills(seen: Observations) -> bool:
    if seen.host_hit_frac is not None:
        return seen.host_hit_frac >= _REUSE_WORTH_FRAC
    if seen.footprint_bytes is None or seen.footprint_bytes <= seen.device_bytes:
        return False
    returns = (seen.idle_frac or 0.0) >= _IDLE_FRAC and (seen.idle_return_frac or 0.0) >= _RETURN_FRAC
    return returns or (seen.unbounded_hit_frac or 0.0) - seen.device_hit_frac >= _REUSE_WORTH_FRAC


def _technique(technique: Technique, seen: Observations, pressures: frozenset[Pressure]) -> TechniqueAdvice:
    rule = rule_of(technique)
    if rule.need is Need.MODEL:
        answer, because = Answer.MODEL, "it is part of a model, not a setting"
    else:
        answer, because = _BY_TECHNIQUE[technique](seen, pressures)
    return TechniqueAdvice(technique, answer, because, rule.risk)


def _offload(seen: Observations, pressures: frozenset[Pressure]) -> tuple[Answer, str]:
    if Pressure.IDLE in pressures:
        if seen.break_even_tokens is None:
            return Answer.NO, "on this link loading never takes less time than recomputing"
        return Answer.FIRST, f"blocks come back, and loading pays for runs of {seen.break_even_tokens:,} or more tokens"
    if Pressure.RUNNING in pressures:
        return Answer.LATER, "running requests can be paused on the host or streamed, at the price of their speed"
    return Answer.NO, "no idle blocks that come back fill the device"


def _quantisation(seen: Observations, pressures: frozenset[Pressure]) -> tuple[Answer, str]:
    if Pressure.RUNNING in pressures or Pressure.BANDWIDTH in pressures:
        return Answer.FIRST, "fewer bits let more requests run and are fewer bytes to read; quantise before evicting"
    if Pressure.IDLE in pressures:
        return Answer.LATER, "twice as many blocks fit, but offload keeps the output what it is"
    return Answer.NO, "neither memory nor bandwidth is short"


def _budget(seen: Observations, pressures: frozenset[Pressure]) -> tuple[Answer, str]:
    if Pressure.RUNNING in pressures or Pressure.BANDWIDTH in pressures:
        return Answer.LATER, "quantise before evicting: fewer bits keep every token, a budget drops tokens for good"
    return Answer.NO, "it shortens running contexts, which are not what is short"


def _sparse(seen: Observations, pressures: frozenset[Pressure]) -> tuple[Answer, str]:
    if Pressure.BANDWIDTH in pressures:
        long = seen.mean_context_tokens >= _LONG_CONTEXT_TOKENS
        words = f"contexts are {seen.mean_context_tokens:,.0f} tokens in the mean; it saves bandwidth, not memory"
        return (Answer.FIRST if long else Answer.LATER), words
    return Answer.NO, "it saves bandwidth, not memory: all pages stay, and their metadata is added"


def _paging(seen: Observations, pressures: frozenset[Pressure]) -> tuple[Answer, str]:
    return Answer.NO, "engines with blocks have it; smaller blocks only save part of one block per request"


def _sharing(seen: Observations, pressures: frozenset[Pressure]) -> tuple[Answer, str]:
    if Pressure.PREFIX in pressures:
        place = unstable_places(seen)[0]
        return Answer.FIRST, f"move what changes behind what is common: prompts diverge at token {place.tokens:,}"
    if Pressure.NO_REUSE in pressures:
        return Answer.NO, "prompts have nothing in common that could be shared"
    if seen.unbounded_hit_frac is None:
        return Answer.NO, "nothing shows that prompts diverge where they need not; a trace would say"
    return Answer.NO, f"prompts share what they can: {_percent(seen.unbounded_hit_frac)} of accesses without limit"


_BY_TECHNIQUE = {
    Technique.OFFLOAD: _offload,
    Technique.QUANTISATION: _quantisation,
    Technique.EVICTION_BUDGET: _budget,
    Technique.SPARSE_READS: _sparse,
    Technique.PAGING: _paging,
    Technique.PREFIX_SHARING: _sharing,
}


def _notes(seen: Observations) -> tuple[str, ...]:
    notes = [
        "an engine allocates its pool at its start: what a technique saves shows in the pool's use and in how many "
        "requests run, not in nvidia-smi"
    ]
    if seen.unbounded_hit_frac is None:
        notes.append(
            "counters say neither how much reuse there is nor where prefixes diverge: record a trace to know more"
        )
    elif seen.device_hit_frac < _LOW_HIT_FRAC and not unstable_places(seen):
        notes.append(
            f"the hit rate of {_percent(seen.device_hit_frac)} is low, but no place was found where prefixes diverge "
            "that would be equal otherwise"
        )
    if seen.running_bytes <= seen.device_bytes < (seen.footprint_bytes or 0):
        notes.append(_sizes("running requests fit: they hold", seen.running_bytes, seen))
    return tuple(notes)


def _place_words(place: Divergence) -> str:
    return (
        f"{_percent(place.request_frac)} of the requests diverge in block {place.block:,}, after {place.tokens:,} "
        f"tokens ({place.grade}: {place.evidence})"
    )


def _sizes(words: str, n_bytes: int, seen: Observations) -> str:
    return f"{words} {n_bytes / GIB:,.1f} GiB at the 95th percentile, the device {seen.device_bytes / GIB:,.1f} GiB"


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{100 * share:.1f} %"
