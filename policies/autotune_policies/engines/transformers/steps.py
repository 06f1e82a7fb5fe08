"""The order of updates: where a forward pass begins, whether the last one was complete, and time between layers."""

from __future__ import annotations

from collections import deque
from statistics import median

from autotune.core.clock import Clock
from autotune.core.errors import StreamingError

_KEPT = 256  # decode steps whose times are kept, for the median


class StepOrder:
    """Watches which layers are updated, in which order.

    All passes update the same layers. A pass that breaks off leaves some layers with its tokens and others without,
    which no later pass can repair: the next one is refused.

    Args:
        clock: Time between layers.
    """

    def __init__(self, clock: Clock) -> None:
        self.steps = 0
        self.compute_s = 0.0
        self._clock = clock
        self._seen: list[int] = []
        self._whole_step: frozenset[int] | None = None
        self._arrived_s = 0.0
        self._left_s = 0.0
        self._updating_s = 0.0  # what the last update took, waits left out
        self._left: int | None = None  # the layer of that update, if it was a decode step's
        self._busy_s: dict[int, deque[float]] = {}
        self._step_busy_s = 0.0
        self._steps_busy_s: deque[float] = deque(maxlen=_KEPT)

    def arrive(self, layer: int) -> None:
        """A layer's update begins.

        Raises:
            StreamingError: the pass before was not complete.
        """
        self._arrived_s = self._clock.monotonic_s()
        self._count_compute(layer)
        if not self._seen or layer <= self._seen[-1]:
            self._begin()
        self._seen.append(layer)
        if self._whole_step is not None and layer not in self._whole_step:
            self._refuse()

    def leave(self, layer: int, *, is_decode: bool, waited_s: float) -> None:
        """A layer's update has ended.

        Args:
            layer: Its index.
            is_decode: Whether it added one token.
            waited_s: For how long it waited for a load.
        """
        self._left = layer if is_decode else None
        self._left_s = self._clock.monotonic_s()
        self._updating_s = self._left_s - self._arrived_s - waited_s

    def layer_compute_s(self, n_layers: int) -> tuple[float, ...]:
        """Seconds from a layer's update to the next one in decode steps, waits left out; 0 without updates.

        Medians, scaled so that they add up to the median step: a sum of medians alone is less than that.
        """
        medians = [median(self._busy_s.get(layer, (0.0,))) for layer in range(n_layers)]
        total_s = sum(medians)
        scale = median(self._steps_busy_s) / total_s if self._steps_busy_s and total_s > 0.0 else 1.0
        return tuple(scale * layer_s for layer_s in medians)

    def _begin(self) -> None:
        if self._seen:
            finished = frozenset(self._seen)
            if self._whole_step is not None and finished != self._whole_step:
                self._refuse()
            self._whole_step = finished
        self._seen = []
        self.steps += 1

    def _count_compute(self, layer: int) -> None:
        if self._left is None:
            return
        busy_s = self._updating_s + self._arrived_s - self._left_s
        self._busy_s.setdefault(self._left, deque(maxlen=_KEPT)).append(busy_s)
        self._step_busy_s += busy_s
        is_last = layer <= self._left
        self.compute_s += self._updating_s if is_last else busy_s  # after the last the caller may pause for any time
        if is_last:
            self._steps_busy_s.append(self._step_busy_s)
            self._step_busy_s = 0.0

    def _refuse(self) -> None:
        raise StreamingError(
            "every forward pass updates the same layers of a cache",
            got="a pass that broke off, or another model",
            remedy="make a new cache and generate from the start",
        )
