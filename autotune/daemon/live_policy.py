"""The live policy file: the only thing of an engine that the sidecar ever changes.

Before every write the file is compared with what was written last. If somebody else wrote there, it is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from autotune.core.errors import PolicyError
from autotune.core.policy import PolicyDocument, load
from autotune.daemon.trial import identity
from autotune.export import save


class Whose(Enum):
    """Whose content the file has."""

    OURS = "ours"
    NOBODYS = "nobody's"  # there is no file, and none was written
    THEIRS = "an administrator's"


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the file now.

    Attributes:
        document: The policy; ``None`` = no file, or no policy.
        text: What is wrong with it; empty where it can be read or does not exist.
    """

    document: PolicyDocument | None
    text: str = ""


class LivePolicy:
    """One file that an engine watches.

    Args:
        path: The file; symbolic links are followed.

    Attributes:
        written: Identity of what was written last, or adopted at the start; ``None`` = no file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: str | None = None
        self._known: bytes | None = None  # content that was found to be ours, so that it need not be parsed again

    def read(self) -> Found:
        """What is there now; never raises."""
        if not self.path.exists():
            return Found(None)
        try:
            return Found(load(self.path))
        except PolicyError as problem:
            return Found(None, str(problem))

    def adopt(self) -> PolicyDocument | None:
        """Take what is there as the starting point.

        Raises:
            PolicyError: it is no policy.
        """
        document = load(self.path) if self.path.exists() else None
        self.written = None if document is None else identity(document)
        return document

    def whose(self) -> Whose:
        """Whose content it has now."""
        content = self._content()
        if content is not None and content == self._known:
            return Whose.OURS
        found = self.read()
        if found.text:
            return Whose.THEIRS
        now = None if found.document is None else identity(found.document)
        if now != self.written:
            return Whose.THEIRS
        self._known = content
        return Whose.NOBODYS if now is None else Whose.OURS

    def _content(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except OSError:
            return None

    def write(self, document: PolicyDocument) -> None:
        """Put a policy in force; the file has the old content or the new one at every moment.

        Raises:
            PolicyError: it cannot be written; the old content stays.
        """
        try:
            save(document, self.path)
        except PolicyError:
            if self.read().document == document:  # the name was taken over, and only the folder's sync failed
                self.written = identity(document)
            raise
        self.written = identity(document)
        self._known = None

    def remove(self) -> None:
        """Take the file away.

        Raises:
            PolicyError: it cannot be removed.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as problem:
            raise PolicyError(f"{self.path} must be removable", got=problem.strerror or problem) from problem
        self.written = None
