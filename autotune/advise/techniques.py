"""The twelve techniques: what each reduces, what it does not, and what it risks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.geometry.kinds import Technique


class Need(StrEnum):
    """What it takes to use a technique."""

    MODEL = "part of the model"
    ENGINE = "a setting of the engine"
    WORKLOAD = "a change of the prompts"


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known about one technique.

    Attributes:
        technique: Which.
        need: What it takes to use it.
        saves_memory: Whether fewer bytes lie on the device.
        saves_bandwidth: Whether a step reads fewer bytes from the device's memory.
        exact: Whether the output stays what it is.
        risk: What may go wrong.
    """

    technique: Technique
    need: Need
    saves_memory: bool
    saves_bandwidth: bool
    exact: bool
    risk: str


_RULES = (
    Rule(Technique.GROUPED_HEADS, Need.MODEL, True, True, True, "none here: another model"),
    Rule(Technique.LAYER_SHARING, Need.MODEL, True, False, True, "none here: another model"),
    Rule(Technique.SLIDING_WINDOW, Need.MODEL, True, True, True, "none here: another model; far tokens are not seen"),
    Rule(Technique.LATENT, Need.MODEL, True, True, True, "every rank of tensor parallelism keeps all of it"),
    Rule(Technique.RECURRENT, Need.MODEL, True, True, True, "prefix reuse needs checkpoints of the state"),
    Rule(Technique.COMPRESSED, Need.MODEL, True, True, True, "none here: another model"),
    Rule(
        Technique.SPARSE_READS,
        Need.ENGINE,
        False,
        True,
        False,
        "memory grows by the metadata; a page that matters may be missed",
    ),
    Rule(
        Technique.QUANTISATION,
        Need.ENGINE,
        True,
        True,
        False,
        "values change a little: compare answers on long contexts first",
    ),
    Rule(
        Technique.EVICTION_BUDGET,
        Need.ENGINE,
        True,
        True,
        False,
        "what was dropped is gone for later turns, and a dropped prefix cannot be reused by others",
    ),
    Rule(Technique.PAGING, Need.ENGINE, True, False, True, "larger blocks waste more of their last slots"),
    Rule(
        Technique.PREFIX_SHARING,
        Need.WORKLOAD,
        True,
        False,
        True,
        "needs prompts that begin alike; across tenants it can be seen in the time to first token",
    ),
    Rule(
        Technique.OFFLOAD,
        Need.ENGINE,
        True,
        False,
        True,
        "loads cost time on the link; below the break-even length they cost more than recomputing",
    ),
)


def rules() -> tuple[Rule, ...]:
    """All of them, in the order of :class:`Technique`."""
    return tuple(sorted(_RULES, key=lambda rule: list(Technique).index(rule.technique)))


def rule_of(technique: Technique) -> Rule:
    """What is known about one."""
    return next(rule for rule in _RULES if rule.technique is technique)
