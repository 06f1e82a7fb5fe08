"""Every error this project raises on purpose.

A message states the rule that was broken, what came instead, and the remedy, so that a user can act on the one line
that a command prints.
"""

from __future__ import annotations


class AutotuneError(Exception):
    """Base of all errors raised on purpose.

    Args:
        rule: What must hold.
        got: What came instead.
        remedy: What the reader can do about it.
    """

    def __init__(self, rule: str, *, got: object = None, remedy: str = "") -> None:
        self.rule = rule
        self.got = None if got is None else str(got)
        self.remedy = remedy
        parts = [rule]
        if self.got is not None:
            parts.append(f"got {self.got}")
        if remedy:
            parts.append(remedy)
        super().__init__("; ".join(parts))


class TraceError(AutotuneError):
    """A trace cannot be read, or does not carry what was asked of it."""


class PolicyError(AutotuneError):
    """A policy document or a policy's parameters are not valid."""


class ConfigError(AutotuneError):
    """A setting, a model or a hardware profile is not valid."""


class SimulationError(AutotuneError):
    """A simulation was asked for something that it cannot do honestly."""


class SearchError(AutotuneError):
    """A search space, an objective or a study is not valid."""


class StreamingError(AutotuneError):
    """A streamed KV cache cannot go on, or was asked for what it cannot do."""


class UnknownNameError(AutotuneError):
    """A name is not registered; the message lists those that are."""


class MissingExtraError(AutotuneError):
    """A part needs packages of an optional extra that is not installed."""
