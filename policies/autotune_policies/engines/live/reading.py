"""From the bytes of a policy file to a document that was checked, beside the engine's scheduler where it takes long.

A learned model takes tens of milliseconds to read. The scheduler does not wait for that: the policy in force stays
until the next one has been read.
"""

from __future__ import annotations

import threading

from autotune.core.errors import PolicyError
from autotune.core.policy import PolicyDocument, parse
from autotune.core.strict_yaml import decode
from autotune_policies.engines.live.matching import EngineFacts, check_match
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.watched_file import MAX_POLICY_BYTES


class Reading:
    """One content of a policy file, being read or read.

    Args:
        content: The bytes.
        engine: What the policy must be meant for.
        in_background: Whether a thread of its own reads them.
    """

    def __init__(self, content: bytes, engine: EngineFacts, *, in_background: bool) -> None:
        self._content, self._engine = content, engine
        self._document: PolicyDocument | None = None
        self._problem: Exception | None = None
        self._thread: threading.Thread | None = None
        if in_background:
            self._thread = threading.Thread(target=self._read, name="kv-autotune policy", daemon=True)
            self._thread.start()
        else:
            self._read()

    @property
    def is_done(self) -> bool:
        """Whether :meth:`document` has an answer."""
        return self._thread is None or not self._thread.is_alive()

    def document(self) -> PolicyDocument:
        """The document.

        Raises:
            AutotuneError: it is not valid, or not meant for this engine.
        """
        if self._problem is not None or self._document is None:
            raise self._problem or PolicyError(
                "a policy file must have been read before it is used", got="an early call"
            )
        return self._document

    def _read(self) -> None:
        try:
            document = parse(decode(self._content, PolicyError, MAX_POLICY_BYTES))
            check_match(document, self._engine)
            HostRules.of(document)  # the tables of a learned rule are made here once, and known from then on
            self._document = document
        except Exception as problem:  # handed to whoever asks for the document
            self._problem = problem
