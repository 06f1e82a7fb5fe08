"""A sampled log of decisions, one JSON object a line: which chunk, what was done with it, and why.

Whole stories rather than scattered lines: a key is either logged at every decision or at none. The file is bounded:
when it reaches half of the bound it becomes the second generation, ``NAME.1``, and the older one goes.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from autotune.core.append_file import AppendFile
from autotune.core.clock import Clock, SystemClock
from autotune_policies.engines.live.outbox import Outbox

MAX_WAITING = 10_000
_SPREAD = 0x9E3779B1  # 2**32 / golden ratio (Knuth): spreads the checksums of similar keys
_HEAD_DIGITS, _TAIL_DIGITS = 16, 8


class Action(StrEnum):
    """What was decided about a chunk."""

    KEEP = "KEEP"
    OFFLOAD = "OFFLOAD"
    EVICT = "EVICT"
    LOAD = "LOAD"
    RECOMPUTE = "RECOMPUTE"
    REFUSE = "REFUSE"


@dataclass(frozen=True, slots=True)
class _Entry:
    time_utc: datetime
    key: bytes
    action: Action
    reason: str
    rank_ns: int | None
    value_s: float | None
    price_s_per_byte: float | None


class DecisionLog:
    """Appends sampled decisions to a file, from a thread of its own; whoever decides never waits.

    Args:
        path: File to append to; its folder is made if need be.
        sample_frac: Share of the keys that are logged.
        max_bytes: Most bytes that both generations take together.
        seed: Chooses which keys are logged.
        clock: Tells the time of a decision.
    """

    def __init__(
        self, path: Path, sample_frac: float, max_bytes: int, seed: int = 0, clock: Clock | None = None
    ) -> None:
        self._threshold = round(sample_frac * 2**32)
        self._seed = seed & 0xFFFFFFFF
        self._clock = clock or SystemClock()
        self._file = AppendFile(path)
        self._max_generation_bytes = max_bytes // 2
        self._outbox: Outbox[_Entry] = Outbox("kv-autotune decision log", self._write, MAX_WAITING, self._file.close)

    @property
    def lost(self) -> int:
        """Decisions that were to be logged and were not."""
        return self._outbox.lost

    def take_lost(self) -> int:
        """The same, since this was last asked."""
        return self._outbox.take_lost()

    def wants(self, key: bytes) -> bool:
        """Whether decisions about this key are logged; ask before working out what only the log needs."""
        return (zlib.crc32(key, self._seed) * _SPREAD) & 0xFFFFFFFF < self._threshold

    def log(
        self,
        key: bytes,
        action: Action,
        reason: str,
        *,
        rank_ns: int | None = None,
        value_s: float | None = None,
        price_s_per_byte: float | None = None,
    ) -> None:
        """Log one decision if its key is among the sampled ones.

        Args:
            key: The chunk's key, opaque.
            action: What was decided.
            reason: Why, in few words.
            rank_ns: Its rank at that moment.
            value_s: Seconds that keeping it is expected to save.
            price_s_per_byte: What a byte of its tier costs.
        """
        if self.wants(key):
            now = self._clock.utc_now()
            self._outbox.offer(_Entry(now, key, action, reason, rank_ns, value_s, price_s_per_byte))

    def close(self) -> None:
        """Write what waits and close the file."""
        self._outbox.close()

    def _write(self, entry: _Entry) -> None:
        line = _line(entry)
        size_bytes = self._file.size_bytes()
        if size_bytes and size_bytes + len(line) > self._max_generation_bytes:
            self._file.close()
            self._file.path.replace(self._file.path.with_name(f"{self._file.path.name}.1"))
        self._file.append(line)


def _line(entry: _Entry) -> bytes:
    fields: dict[str, object] = {
        "time_utc": entry.time_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "key": short_key(entry.key),
        "action": entry.action,
    }
    if entry.rank_ns is not None:
        fields["rank_ns"] = entry.rank_ns
    fields |= {"value_s": entry.value_s, "price_s_per_byte": entry.price_s_per_byte, "reason": entry.reason}
    return json.dumps(fields, separators=(",", ":"), default=float).encode("ascii") + b"\n"


def short_key(key: bytes) -> str:
    """A key in hexadecimal; of a long one the first 16 digits, and the last 8, in which vLLM writes the group."""
    digits = key.hex()
    if len(digits) <= _HEAD_DIGITS + _TAIL_DIGITS:
        return digits
    return f"{digits[:_HEAD_DIGITS]}..{digits[-_TAIL_DIGITS:]}"
