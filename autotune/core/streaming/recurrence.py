"""How long a decode step takes while layers are streamed: a recurrence over the layers of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.core.errors import StreamingError

# Steps until the pattern of loads repeats, and steps whose mean is the answer.
_WARM_UP_STEPS = 16
_MEASURED_STEPS = 16


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """One decode step in the steady state.

    Attributes:
        step_s: Its length.
        compute_s: Compute in it.
        transfer_s: Time for which the link is busy with its loads.
        wait_s: Time for which compute waits for loads.
    """

    step_s: float
    compute_s: float
    transfer_s: float
    wait_s: float

    @property
    def overlap_frac(self) -> float:
        """beta: the hidden part of what could be hidden."""
        return overlap_frac(self.compute_s, self.transfer_s, self.wait_s)


def predict_step(compute_s: Sequence[float], load_s: Sequence[float | None], prefetch_depth: int) -> StepPrediction:
    """The steady decode step of a model whose layers are partly streamed.

    When compute arrives at a streamed layer, the loads of the next ``prefetch_depth`` streamed layers are issued, past
    the end of the step too, unless they have been. The link serves loads in order: ``ready = max(link free, issued) +
    load``, and compute waits for ``ready``. With d = 0 a layer's own load is issued when compute arrives. For d >= 1
    and streamed layers evenly spread, the result comes close to max(compute, transfer).

    Args:
        compute_s: Seconds of compute of each layer, in the order of a step; shape ``(n_layers,)``. What a step does
            besides its layers counts to the last one.
        load_s: Seconds that the link takes to load each layer's KV, None where the layer is resident; the same shape.
        prefetch_depth: d, in streamed layers.

    Raises:
        StreamingError: the shapes differ, a time is negative, or the depth is.
    """
    _check(compute_s, load_s, prefetch_depth)
    run = _Run(compute_s, load_s, prefetch_depth)
    for _ in range(_WARM_UP_STEPS):
        run.step()
    begin_s, waited_s = run.now_s, run.waited_s
    for _ in range(_MEASURED_STEPS):
        run.step()
    return StepPrediction(
        step_s=(run.now_s - begin_s) / _MEASURED_STEPS,
        compute_s=sum(compute_s),
        transfer_s=sum(x_s for x_s in load_s if x_s is not None),
        wait_s=(run.waited_s - waited_s) / _MEASURED_STEPS,
    )


def overlap_frac(compute_s: float, transfer_s: float, wait_s: float) -> float:
    """Beta in ``speed-up = (c + x) / (c + x - beta * min(c, x))``: 0 = nothing is hidden, 1 = all that can be.

    1 where there is nothing to hide. Measured times may contradict each other a little; the result stays in 0 to 1.
    """
    hideable_s = min(compute_s, transfer_s)
    return min(max((transfer_s - wait_s) / hideable_s, 0.0), 1.0) if hideable_s > 0.0 else 1.0


class _Run:
    """The state of compute and link between layers."""

    def __init__(self, compute_s: Sequence[float], load_s: Sequence[float | None], prefetch_depth: int) -> None:
        self.now_s = 0.0
        self.waited_s = 0.0
        self._compute_s = compute_s
        self._position_of = {layer: k for k, layer in enumerate(i for i, x_s in enumerate(load_s) if x_s is not None)}
        self._load_s = [x_s for x_s in load_s if x_s is not None]
        self._ahead = min(prefetch_depth, len(self._load_s))
        self._link_free_s = 0.0
        self._ready_s: dict[int, float] = {}

    def step(self) -> None:
        """All layers once."""
        for layer, compute_s in enumerate(self._compute_s):
            position = self._position_of.get(layer)
            if position is not None:
                self._wait_for(position)
            self.now_s += compute_s

    def _wait_for(self, position: int) -> None:
        n_streamed = len(self._load_s)
        for offset in range(min(self._ahead, n_streamed - 1) + 1):
            self._issue((position + offset) % n_streamed)
        start_s = max(self.now_s, self._ready_s.pop(position))
        self.waited_s += start_s - self.now_s
        self.now_s = start_s
        if self._ahead == n_streamed:  # the layer's own next load, once its new token is on the host
            self._issue(position)

    def _issue(self, position: int) -> None:
        if position not in self._ready_s:
            self._link_free_s = max(self._link_free_s, self.now_s) + self._load_s[position]
            self._ready_s[position] = self._link_free_s


def _check(compute_s: Sequence[float], load_s: Sequence[float | None], prefetch_depth: int) -> None:
    if len(compute_s) != len(load_s):
        raise StreamingError(
            "there is one load time, or None, for each layer", got=f"{len(load_s)} for {len(compute_s)} layers"
        )
    if prefetch_depth < 0 or any(c_s < 0 for c_s in compute_s) or any(x_s is not None and x_s < 0 for x_s in load_s):
        raise StreamingError("times and the prefetch depth are not negative", got=f"depth {prefetch_depth}")
