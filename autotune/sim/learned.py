"""A simulated engine under a learned policy, run piece by piece so that whoever learns can act in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.costs import CostProfile
from autotune.core.decide.features import stop_code
from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.hazard_layout import (
    BUDGET_BEGAN_NS,
    WRITE_BURST_NS,
    WRITE_NS,
    WRITTEN_UP_TO_NS,
)
from autotune.core.history import (
    A_EXPECTED_IDLE_S,
    R_INPUT_TOKENS,
    R_OUTPUT_TOKENS,
    R_PRIORITY,
    R_SESSION_END,
    R_STOP,
    History,
    empty_history,
    with_room,
)
from autotune.core.policy import WriteBudget
from autotune.core.reuse.packed import PackedModel
from autotune.core.reuse.tables import ModelArrays, model_arrays
from autotune.core.state import TierState
from autotune.core.trace import Trace
from autotune.core.types import Arm, Tier, Timing
from autotune.core.units import NS_PER_S
from autotune.sim import columns, scan, tiers
from autotune.sim.chains import sampled_chains
from autotune.sim.config import CacheConfig
from autotune.sim.governing import BOTH_TIERS, begin_as_lru, govern
from autotune.sim.learned_loop import C_NOW_NS, N_CLOCK, Side, run_learned_instant, run_learned_service
from autotune.sim.learned_rules import HazardRules, Hints
from autotune.sim.loop import Rules
from autotune.sim.prepare import make_result, make_rules, make_tiers
from autotune.sim.result import CacheResult
from autotune.sim.stream import make_stream, require_distinct_blocks, without_partial_blocks

_kernels = registry.load(registry.KERNELS, "tier")
_LRU = PolicySpec("lru")
FORGET_S = 14_400.0
WINDOW_ROWS = 100_000
_SLOWEST_WRITE_S = 1e9  # sums of such times stay far inside int64 nanoseconds


class LearnedCache:
    """The live cache over one trace, and shadows beside it: one for each way to run, see :class:`Arm`.

    All begin as LRU. Unless the host stores everything at once, that is one LRU over both tiers: what only the host
    holds leaves in the order of its last use, behind copies of what the device holds too. So the tiers together hold at
    any time what was used last, which includes all that LRU with eager stores holds. Under a write budget copies are
    worth a write, so there the host is LRU by itself.

    As long as an unsampled shadow does what the live cache does, it is not simulated: the live cache stands for it.

    Args:
        trace: The requests.
        config: The engine; its device and host are governed by the rules that are put in force here.
        costs: The cost model.
        shadows: Whether the shadows run.
        shadow_frac: Share of chains that the shadows see, with as large a share of the capacities.
        seed: Draws those chains.
        write: What may be stored to the host, from the first request on; ``None`` = as much as comes.
        window_rows: Newest rows whose features are kept.
        forget_s: How long an unused block is remembered.
        hints: What clients told.

    Attributes:
        live: The cache that counts.
        arm: How it runs.
        seen: ``(n_requests,)`` uint8: whether the shadows see a request.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        SimulationError: the engine stores chunks of several blocks, or the write budget hardly ever allows a block.
    """

    def __init__(
        self,
        trace: Trace,
        config: CacheConfig,
        costs: CostProfile,
        *,
        shadows: bool = True,
        shadow_frac: float = 1.0,
        seed: int = 0,
        write: WriteBudget | None = None,
        window_rows: int = WINDOW_ROWS,
        forget_s: float = FORGET_S,
        hints: Hints | None = None,
    ) -> None:
        trace.require_blocks()
        if config.chunk_blocks != 1:
            raise SimulationError("a learned policy ranks single blocks", got=f"chunks of {config.chunk_blocks}")
        if config.timing is Timing.SERVICE:
            require_distinct_blocks(trace, "pins its blocks", "use --timing instant")
        self.trace = without_partial_blocks(trace) if config.full_blocks else trace
        self.config = replace(config, device_policy=_LRU, host_policy=_LRU)
        self.costs = costs
        self.history = _history_of(self.trace, window_rows, forget_s, hints or Hints())
        self._model: ModelArrays = model_arrays(None)
        self._stream = make_stream(self.trace, self.config)
        self._rules: Rules = make_rules(self.trace, self.config, costs)
        self._none = np.zeros(0, np.int64)
        n = self.trace.n_requests
        self._nodes = tiers.empty_nodes(self.trace.n_blocks)
        scan.place_blocks(self.trace, self._nodes)
        self._values_ns = tiers.learned_values_ns(self.trace, costs)
        self._write_ns, self._write_burst_ns = _in_ns(write, trace.block_tokens * costs.kv_bytes_per_token)
        self._nothing = np.zeros(n, np.uint8)
        self.seen = sampled_chains(self._stream, self.trace.n_blocks, shadow_frac, seed) if shadows else self._nothing
        self.arm = Arm.LRU
        self.live = self._side(1.0, np.ones(n, np.uint8))
        self._sees_all = shadow_frac >= 1.0
        self._shadows: dict[Arm, Side] = {}  # those that are, or were, simulated by themselves
        if shadows and not self._sees_all:
            self._shadows = {arm: self._side(shadow_frac, self.seen) for arm in Arm}
        self._twin_since: dict[Arm, int] = dict.fromkeys(Arm, 0) if shadows and self._sees_all else {}
        self._resting: set[Arm] = set()
        self._in_force: dict[Arm, HazardRules | None] = dict.fromkeys(Arm)
        self._clock = np.zeros(N_CLOCK, np.int64)
        self._wait_ns, self._finish_ns, self._running = (np.zeros(n, np.int64) for _ in range(3))
        self.position = 0

    def run(self, stop: int) -> None:
        """Requests up to ``stop`` (exclusive); at the end of the trace all that still runs finishes too."""
        start, stop = self.position, min(stop, self.trace.n_requests)
        offsets = self._stream.offsets
        self.history = with_room(self.history, int(offsets[stop] - offsets[start]) + self._unfinished_blocks())
        idle = self.live._replace(takes=self._nothing)
        shadows = tuple(self._shadows.get(arm, idle) for arm in Arm)
        common = (self._stream, self.live, shadows, self.history, self._model, self._none)
        if self.config.timing is Timing.SERVICE:
            state = (self._clock, self._wait_ns, self._finish_ns, self._running)
            run_learned_service(*common, *state, start, stop, stop == self.trace.n_requests)
        else:
            run_learned_instant(*common, start, stop)
        self.position = stop

    def now_s(self) -> float:
        """Seconds up to which the engine has run: behind the arrivals if requests had to wait for room."""
        arrived_s = float(self.trace.arrival_s[max(0, self.position - 1)])
        return max(arrived_s, float(self._clock[C_NOW_NS]) / NS_PER_S)

    def result(self) -> CacheResult:
        """What the live cache did."""
        return make_result(self.trace, self.config, self.costs, self.live.out, self._wait_ns)

    def shadow_result(self, arm: Arm) -> CacheResult:
        """What a shadow did; a sampled one only with what it saw."""
        return make_result(self.trace, self.config, self.costs, self.shadow(arm).out, self._wait_ns)

    def shadow(self, arm: Arm) -> Side:
        """A shadow, whose counts are up to date; its tiers are only if it goes its own way."""
        shadow = self._shadows.get(arm, self.live)
        if arm in self._twin_since and shadow is not self.live:
            rows = slice(self._twin_since[arm], self.position)
            np.copyto(shadow.out[rows], self.live.out[rows])
        return shadow

    def know(self, packed: PackedModel) -> None:
        """Another model classifies from now on, and anew what is remembered."""
        self._model = model_arrays(packed)
        _kernels.reclassify(self.history, self._model)

    @property
    def running(self) -> tuple[Arm, ...]:
        """The ways whose shadows do not rest."""
        return tuple(arm for arm in Arm if arm not in self._resting)

    def learn(self, arm: Arm, rules: HazardRules) -> bool:
        """What was learned for a way to run: its shadow obeys from now on, and so does the live cache if it runs so.

        Returns:
            Whether the shadow begins here: with all that the live cache has.
        """
        begins = self._in_force[arm] is None or arm in self._resting
        self._in_force[arm] = rules
        if arm is not self.arm:
            self._part(arm)
        if arm not in self._twin_since:
            self._govern(self._shadows[arm], rules, BOTH_TIERS)
        if arm is self.arm:
            self._govern(self.live, rules, BOTH_TIERS)
        return begins

    def rest(self, arm: Arm) -> None:
        """A way's shadow is not simulated until something else is learned for it: the live cache stands in for it."""
        if self._sees_all and arm not in self._twin_since:
            self._join(arm)
            self._resting.add(arm)

    def switch(self, arm: Arm) -> None:
        """The live cache runs in another way from now on; from a learned one on its shadow is what happens."""
        self._part(self.arm)
        self.obey(self._in_force[arm])
        self.arm = arm
        if self._sees_all and arm is not Arm.LRU:  # LRU's own shadow stays what it would have been all along
            self._join(arm)

    def obey(self, rules: HazardRules | None, governed: tuple[Tier, ...] = BOTH_TIERS) -> None:
        """The live cache obeys rules on the governed tiers; none = LRU, as on its other tiers."""
        self._govern(self.live, rules, governed)

    def _join(self, arm: Arm) -> None:
        self._twin_since[arm] = self.position
        self._shadows[arm] = self._shadows[arm]._replace(takes=self._nothing)

    def _part(self, arm: Arm) -> None:
        """A shadow for which the live cache stood goes its own way from here, with all that that has."""
        if arm not in self._twin_since:
            return
        live, counts = self.live, self.shadow(arm).out
        del self._twin_since[arm]
        self._resting.discard(arm)
        self._shadows[arm] = live._replace(
            device=_copied(live.device),
            host=_copied(live.host),
            disk=_copied(live.disk),
            out=counts.copy() if counts is live.out else counts,
            reserved=live.reserved.copy(),
            takes=self.seen,
        )

    def _govern(self, side: Side, rules: HazardRules | None, governed: tuple[Tier, ...]) -> None:
        govern(side, rules, governed, self.config.store_mode, self._values_ns)

    def _unfinished_blocks(self) -> int:
        """Blocks of requests that still run, which may finish only now."""
        if self.config.timing is not Timing.SERVICE:
            return 0
        running = self._running[: int(self._clock[1])]
        return int((self._stream.offsets[running + 1] - self._stream.offsets[running]).sum())

    def _side(self, frac: float, takes: npt.NDArray[np.uint8]) -> Side:
        disk = make_tiers(self.trace, self.config, self.costs)[2]
        device = self._learned_tier(self._scaled(self.config.device_blocks, frac))
        host_blocks = self._scaled(self.config.host_blocks, frac)
        host = self._learned_tier(host_blocks) if host_blocks else tiers.empty_tier()
        host.params[WRITE_NS], host.params[WRITE_BURST_NS] = self._write_ns / frac, self._write_burst_ns
        began_ns = int(self._stream.arrival_ns[0]) if self.trace.n_requests else 0
        host.ints[WRITTEN_UP_TO_NS] = host.ints[BUDGET_BEGAN_NS] = began_ns
        out = np.zeros((self.trace.n_requests, columns.N_COLUMNS), np.int32)
        side = Side(device, host, disk, out, np.zeros(1, np.int64), takes, self._rules)
        begin_as_lru(side, self.config.store_mode)
        return side

    @staticmethod
    def _scaled(blocks: int, frac: float) -> int:
        return max(1, round(blocks * frac)) if blocks else 0

    def _learned_tier(self, blocks: int) -> TierState:
        """Both tiers count a block by the seconds that a hit on the host would save, so that their ranks compare."""
        context = tiers.tier_context(blocks, Tier.HOST, self.trace, self.costs)
        return tiers.learned_tier(context, self._nodes.copy(), self.history.shared)


def _in_ns(write: WriteBudget | None, block_bytes: int) -> tuple[float, float]:
    """Time in which a write budget allows one block, and that may be saved up; 0 = there is no budget."""
    if write is None:
        return 0.0, 0.0
    if block_bytes > write.bytes_per_s * _SLOWEST_WRITE_S:
        raise SimulationError(
            f"a write budget allows a block of {block_bytes:,} bytes within {_SLOWEST_WRITE_S:g} s",
            got=f"{write.bytes_per_s:g} bytes per second",
        )
    return block_bytes / write.bytes_per_s * NS_PER_S, write.burst_s * NS_PER_S


def _copied(state: TierState) -> TierState:
    """A tier with the same content; what all tiers know of the blocks' past is one for all."""
    own = {name: getattr(state, name).copy() for name in TierState._fields if name != "shared"}
    return state._replace(**own)


def _history_of(trace: Trace, window_rows: int, forget_s: float, hints: Hints) -> History:
    history = empty_history(
        trace.n_blocks,
        trace.n_requests,
        block_tokens=trace.block_tokens,
        window=window_rows,
        forget_ns=round(forget_s * NS_PER_S),
    )
    requests = history.requests
    requests[:, R_INPUT_TOKENS] = trace.input_tokens
    requests[:, R_OUTPUT_TOKENS] = trace.output_tokens
    codes = np.array([*(stop_code(name) for name in trace.stop_reasons), stop_code(None)], np.int64)
    requests[:, R_STOP] = codes[trace.stop_reason]  # -1, unknown, takes the last one
    if hints.session_end is not None:
        requests[:, R_SESSION_END] = hints.session_end
    if hints.priority is not None:
        requests[:, R_PRIORITY] = hints.priority
    if hints.expected_idle_s is not None:
        history.averages[:, A_EXPECTED_IDLE_S] = hints.expected_idle_s
    return history
