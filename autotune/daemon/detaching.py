"""Letting go of an engine: its own rule in force, and nothing of ours left where it looks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotune.daemon.loop import Loop
from autotune.daemon.trial import identity

_SHORT_HASH = 12


@dataclass(frozen=True, slots=True)
class Detached:
    """What became of it.

    Attributes:
        done: Whether the engine is known to obey its own rule and the file is gone.
        policy: The live policy file; ``None`` = none was given.
        text: The same in words.
    """

    done: bool
    policy: Path | None
    text: str


class Detaching:
    """Puts stock settings in force, waits until the engine says so, and takes the file away.

    An engine that is idle does not look at its policy file, and one that is restarted without it runs stock LRU. So the
    file stays, with the engine's own rule in it, until the engine confirmed it.

    Args:
        loop: The sidecar; nothing else may run it.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._stock_hash: str | None = None

    def begin(self) -> Detached | None:
        """Publish the engine's own rule; the end, where there is nothing to wait for.

        Raises:
            AutotuneError: it cannot be written.
        """
        policies = self._loop.parts.transitions
        path = policies.live_path
        if policies.hands_off is not None:
            return Detached(False, path, f"left alone: {policies.hands_off}")
        document = policies.detach("kv-autotune detach")
        if document is None:
            return Detached(True, path, "nothing was published, so nothing has to be taken back")
        self._stock_hash = identity(document)[:_SHORT_HASH]
        return None

    def confirm(self) -> Detached | None:
        """One look at the engines; the end, once all of them obey their own rule.

        Raises:
            AutotuneError: the file cannot be removed.
        """
        self._loop.update(self._loop.collect())
        said = [target.policy_hash for target in self._loop.parts.targets]
        if any(each != self._stock_hash for each in said):
            return None
        policies = self._loop.parts.transitions
        path = policies.live_path
        policies.remove_published()
        return Detached(True, path, f"the engine obeys its own rule, and {path} is gone")

    def give_up(self) -> Detached:
        """The engine did not say in time that it took the rule up."""
        path = self._loop.parts.transitions.live_path
        text = (
            f"{path} holds the engine's own rule, but the engine has not said that it took it up (it looks when it has "
            "work); the file may be removed once it has"
        )
        return Detached(False, path, text)
