"""The audit log: one JSON object a line, on the disk before what it says is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from autotune.core.errors import ConfigError
from autotune.core.validation import Strict
from autotune.daemon.status import Cause, Change, ChangeKind, Mode

_SIDECAR = "sidecar"
# Why the sidecar does these by itself.
_CAUSES = {
    ChangeKind.RECOMMENDED: Cause.BETTER,
    ChangeKind.CANARY_STARTED: Cause.BETTER,
    ChangeKind.CANARY_KEPT: Cause.KEPT_PROMISE,
    ChangeKind.ROLLED_BACK: Cause.GUARD,
    ChangeKind.LEASE_EXPIRED: Cause.RESTART,
    ChangeKind.LET_GO: Cause.ADMINISTRATOR,
    ChangeKind.RECOVERED: Cause.RESTART,
}


class AuditEntry(Strict):
    """One thing that the sidecar is about to do, or noticed.

    The hash of a policy leaves its lease out, so that renewing one does not change it.
    """

    at: AwareDatetime = Field(description="When, in UTC.")
    kind: ChangeKind = Field(description="What.")
    from_hash: str | None = Field(default=None, description="Hash of the policy before; null = none was published.")
    to_hash: str | None = Field(default=None, description="Hash of the policy afterwards; null = none.")
    reason: str = Field(description="Why, in one sentence.")
    expected_low_frac: float | None = Field(default=None, description="Lower bound of the expected gain.")
    expected_high_frac: float | None = Field(default=None, description="Upper bound of the expected gain.")
    undo: str = Field(description="How to undo it.")
    mode: Mode | None = Field(default=None, description="Mode afterwards, where the mode changes.")
    who: str = Field(default=_SIDECAR, description="Who asked for it: sidecar, or whoever used its interface.")

    def change(self) -> Change:
        """The entry as the history shows it."""
        return Change(
            at=self.at,
            kind=self.kind,
            from_hash=_short(self.from_hash),
            to_hash=_short(self.to_hash),
            cause=_CAUSES.get(self.kind, Cause.OTHER) if self.who == _SIDECAR else Cause.OPERATOR,
            reason=self.reason,
            expected_low_frac=self.expected_low_frac,
            expected_high_frac=self.expected_high_frac,
            undo=self.undo,
        )


class AuditLog:
    """An append-only file.

    Args:
        path: The file; made when the first entry is written.

    Attributes:
        torn: Lines that cannot be read, such as one that a crash cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = 0
        self._entries = list(self._read())

    @property
    def entries(self) -> list[AuditEntry]:
        """All entries, oldest first."""
        return self._entries

    def append(self, entry: AuditEntry) -> None:
        """Write an entry and wait until it is on the disk.

        Raises:
            ConfigError: it cannot be written; nothing of it stays.
        """
        line = entry.model_dump_json(by_alias=True).encode("utf-8") + b"\n"
        try:
            self._write(line)
        except OSError as problem:
            raise ConfigError(
                f"{self.path} must be writable", got=problem.strerror or problem, remedy="free some space on its disk"
            ) from problem
        self._entries.append(entry)

    def _write(self, line: bytes) -> None:
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # after a line that a crash cut off
            try:
                if os.write(descriptor, line) != len(line):
                    raise OSError(28, "the disk is full")
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        if is_new:
            _sync_folder(self.path.parent)

    def _read(self) -> Iterator[AuditEntry]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as problem:
            raise ConfigError(f"{self.path} must be readable", got=problem.strerror) from problem
        for line in lines:
            if not line:
                continue
            try:
                yield AuditEntry.model_validate_json(line)
            except ValidationError:
                self.torn += 1


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _short(policy_hash: str | None) -> str | None:
    return None if policy_hash is None else policy_hash[:12]
