"""The newest requests of the sample: what a ghost cache is rebuilt from, whatever its policy."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autotune.core.errors import ConfigError
from autotune.daemon.shadow_snapshot import HistoryText, packed, unpacked


class PastRequest(NamedTuple):
    """One request of the sample.

    Attributes:
        time_ns: When its fate was known, since the start of the epoch.
        blocks: Its blocks in prefix order, as numbers of 64 bits without a sign.
        input_tokens: Prompt tokens.
        place: Hash of its chain.
    """

    time_ns: int
    blocks: Sequence[int]
    input_tokens: int
    place: int


class ShadowHistory:
    """Bounded by the number of blocks that its requests name; the oldest requests go first.

    Args:
        max_blocks: That bound; one request is always kept.
    """

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._requests: deque[PastRequest] = deque()
        self.n_blocks = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[PastRequest]:
        return iter(self._requests)

    def add(self, past: PastRequest) -> None:
        """The newest request."""
        self._requests.append(past._replace(blocks=array("Q", past.blocks)))
        self.n_blocks += len(past.blocks)
        while self.n_blocks > self._max_blocks and len(self._requests) > 1:
            self.n_blocks -= len(self._requests.popleft().blocks)

    def thin(self, kept: Sequence[PastRequest]) -> None:
        """Keep these alone."""
        self._requests = deque(kept)
        self.n_blocks = sum(len(past.blocks) for past in kept)

    def text(self) -> HistoryText:
        """As columns of text."""
        return HistoryText(
            times_ns=packed([past.time_ns for past in self]),
            tokens=packed([past.input_tokens for past in self]),
            lengths=packed([len(past.blocks) for past in self]),
            places=packed([past.place for past in self]),
            blocks=packed([block for past in self for block in past.blocks]),
        )

    def take(self, text: HistoryText) -> None:
        """Take in what :meth:`text` gave.

        Raises:
            ConfigError: its columns do not fit together.
        """
        columns = [unpacked(each) for each in (text.times_ns, text.tokens, text.lengths, text.places)]
        blocks = unpacked(text.blocks)
        if len({len(column) for column in columns}) != 1 or sum(columns[2]) != len(blocks):
            raise ConfigError("columns of a checkpoint have one length", got=[len(column) for column in columns])
        start = 0
        for time_ns, tokens, length, place in zip(*columns, strict=True):
            self.add(PastRequest(time_ns, blocks[start : start + length], tokens, place))
            start += length
