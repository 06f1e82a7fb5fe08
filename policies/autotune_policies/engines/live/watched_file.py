"""A file that others replace: noticing new content however it was published, without reading it at every look.

Published by rename, by a symbolic link that is switched (``..data`` of a ConfigMap), or by writing in place (also
through a bind mount): the file's identity changes. Where the clock of the file system is coarse, a second write within
one tick changes no identity; so the content is read again while the last change is young, and now and then for good
measure. Content decides: bytes that were already handed over are not handed over again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from autotune.core.errors import PolicyError
from autotune.core.units import NS_PER_S

LOOK_NS = NS_PER_S // 5  # between two looks at the identity
RACY_NS = 2 * NS_PER_S  # the coarsest clock of a file system in use (FAT)
READ_NS = 10 * NS_PER_S  # between two readings of a file whose identity stays the same
# A learned rule on trial with another one to fall back to, twice over; larger ones would hold the scheduler up.
MAX_POLICY_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class _Identity:
    """What changes when a file is replaced or written: the inode's time of change too, which no tool can set back."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class WatchedFile:
    """Looks at one path when asked to.

    Args:
        path: File; links are followed at every look.

    Attributes:
        next_look_ns: Monotonic nanoseconds before which another look is not worth its time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.next_look_ns = self._changed_ns = self._read_ns = -(2**62)
        self._identity: _Identity | None = None  # at the last reading
        self._taken: bytes | None = None  # digest of the content that was handed over last

    def look(self, now_ns: int) -> bytes | None:
        """New content, or ``None`` where nothing changed.

        Args:
            now_ns: Monotonic nanoseconds.

        Raises:
            FileNotFoundError: there is no such file now.
            OSError: it cannot be read.
            PolicyError: it is no regular file, or larger than :data:`MAX_POLICY_BYTES`.
        """
        self.next_look_ns = now_ns + LOOK_NS
        if _Identity.of(self._stat()) == self._identity and not self._is_due(now_ns):
            return None
        content, identity = self._read()
        if identity != self._identity:
            self._identity, self._changed_ns = identity, now_ns
        self._read_ns = now_ns
        digest = hashlib.sha256(content).digest()
        if digest == self._taken:
            return None
        self._taken = digest
        return content

    def _is_due(self, now_ns: int) -> bool:
        # The first reading after the racy time still counts as young before it, so one always falls behind it.
        is_young = self._read_ns - self._changed_ns < RACY_NS
        return is_young or now_ns - self._read_ns >= READ_NS

    def _stat(self) -> os.stat_result:
        try:
            return self.path.stat()
        except NotADirectoryError as problem:  # a folder of the path was replaced by a file
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path)) from problem

    def _read(self) -> tuple[bytes, _Identity]:
        # Without O_NONBLOCK a FIFO that has no writer would hold the caller up for ever.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise PolicyError("a policy must be a regular file", got=stat.filemode(status.st_mode))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_POLICY_BYTES + 1)
        finally:
            os.close(descriptor)
        if len(content) > MAX_POLICY_BYTES:
            raise PolicyError(f"a policy for an engine holds at most {MAX_POLICY_BYTES} bytes", got="more")
        return content, _Identity.of(status)
