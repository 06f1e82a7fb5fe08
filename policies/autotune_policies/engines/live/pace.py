"""How much work fits into a slice of time, learnt from the slices before."""

from __future__ import annotations

_GROWTH = 2.0


class Pace:
    """Items per slice, so that a slice takes about as long as it may.

    Args:
        slice_ns: How long a slice may take.
        least: Items of the first slice, and of every one at least.
        most: Items of a slice at most.
    """

    def __init__(self, slice_ns: int, least: int, most: int) -> None:
        self._slice_ns, self._least, self._most = slice_ns, least, most
        self.items = least

    def took(self, elapsed_ns: int) -> None:
        """A slice of :attr:`items` took so long."""
        ratio = self._slice_ns / elapsed_ns if elapsed_ns > 0 else _GROWTH
        self.items = max(self._least, min(self._most, int(self.items * min(ratio, _GROWTH))))
