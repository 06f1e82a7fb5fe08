"""The past of blocks by run, as :mod:`autotune.core.history` keeps it in arrays: bounded, and for any kind of key."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from autotune.core.decide import features as f
from autotune.core.learned.runs import PastBlock, PastRequest, RequestFacts, Run, RunSpan
from autotune.core.units import NS_PER_S

K = TypeVar("K", bound=Hashable)
FORGET_S = 14_400.0


class RunHistory(Generic[K]):
    """Remembers the blocks that were used last, and tells the features of each run of a finished request.

    Args:
        block_tokens: Tokens of a block.
        max_blocks: Most blocks remembered; the one that was used longest ago is forgotten first.
        forget_s: A block that was not used for so long counts as new.

    Attributes:
        last_run: The deepest run of the request that finished last; ``None`` if it had no whole block.
    """

    def __init__(self, block_tokens: int, max_blocks: int, forget_s: float = FORGET_S) -> None:
        self.last_run: Run | None = None
        self._block_tokens = block_tokens
        self._max_blocks = max_blocks
        self._forget_ns = round(forget_s * NS_PER_S)
        self._blocks: OrderedDict[K, PastBlock] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def run_of(self, key: K) -> Run | None:
        """The run that a block stands in, or that it followed when it was generated; ``None`` if it is forgotten."""
        block = self._blocks.get(key)
        return None if block is None else block.run or block.generated

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()
        self.last_run = None

    def limit_to(self, max_blocks: int) -> None:
        """Change the bound; what is beyond it is forgotten with the requests that follow."""
        self._max_blocks = max_blocks

    def observe(
        self, keys: Sequence[K], facts: RequestFacts, start_ns: int, now_ns: int, generated: Sequence[K] = ()
    ) -> list[RunSpan]:
        """A request finishes: its runs, in prefix order, each with its features.

        Args:
            keys: The whole blocks of its prompt, in prefix order.
            facts: What is known of it.
            start_ns: When it looked its blocks up.
            now_ns: When it finished.
            generated: Whole blocks behind those, which no prompt has held yet.
        """
        self.last_run = None
        if not keys:
            return []
        blocks = [self._block(key) for key in keys]
        stale_ns = start_ns - self._forget_ns
        known = _count_known(blocks, stale_ns)
        request = PastRequest(len(keys), facts.input_tokens, now_ns)
        before = _continue_chain(request, blocks, known, start_ns)
        for block in blocks[max(known, 1) - 1 : -1]:
            block.children += 1
        common = self._request_features(facts, request, before, known, start_ns)
        spans = self._runs(blocks, request, common, start_ns, now_ns, stale_ns)
        self.last_run = spans[-1].run
        for key in generated:
            self._block(key).generated = self.last_run
        self._renew(keys, generated)
        return spans

    def _block(self, key: K) -> PastBlock:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = PastBlock()
        return block

    def _renew(self, keys: Sequence[K], generated: Sequence[K]) -> None:
        """The deepest block is the first of a request to be forgotten. Twice what came in is forgotten at most."""
        move = self._blocks.move_to_end
        for part in (generated, keys):
            for key in reversed(part):
                move(key)
        excess = len(self._blocks) - self._max_blocks
        for _ in range(min(excess, 2 * (len(keys) + len(generated)))):
            self._blocks.popitem(last=False)

    def _runs(
        self,
        blocks: Sequence[PastBlock],
        request: PastRequest,
        common: array[float],
        start_ns: int,
        now_ns: int,
        stale_ns: int,
    ) -> list[RunSpan]:
        spans: list[RunSpan] = []
        first, parent_uses = 0, 0
        while first < len(blocks):
            old = _known(blocks[first], stale_ns)
            end = first + 1
            while end < len(blocks) and _known(blocks[end], stale_ns) is old:
                end += 1
            run = _new_run(old, request, start_ns, now_ns)
            run.features = common[:]
            self._fill_run(run, blocks, first, end, now_ns, parent_uses)
            for block in blocks[first:end]:
                block.run, block.generated = run, None
            spans.append(RunSpan(first, end, run))
            parent_uses, first = run.uses, end
        return spans

    def _request_features(
        self, facts: RequestFacts, request: PastRequest, before: PastRequest | None, known: int, start_ns: int
    ) -> array[float]:
        """A row of features with those that all runs of a request share."""
        row = array("d", [f.UNKNOWN]) * f.N_FEATURES
        tokens = facts.input_tokens
        row[f.REQUEST_TOKENS] = tokens
        row[f.NEW_TOKENS] = max(tokens - known * self._block_tokens, 0)
        row[f.KNOWN_FRAC] = known / request.n_blocks
        row[f.OUTPUT_TOKENS] = facts.output_tokens
        row[f.STOP_CODE] = facts.stop
        row[f.TURN] = request.turn
        row[f.CHAIN_GAP_EWMA_S] = request.chain_gap_s
        if before is not None:
            row[f.CHAIN_GAP_S] = f.seconds_of(max(start_ns - before.finish_ns, 0))
            row[f.GROWTH_TOKENS] = tokens - before.input_tokens
        row[f.SESSION_END] = facts.session_end
        row[f.EXPECTED_IDLE_S] = facts.expected_idle_s
        row[f.PRIORITY] = facts.priority
        return row

    def _fill_run(
        self, run: Run, blocks: Sequence[PastBlock], first: int, end: int, now_ns: int, parent_uses: int
    ) -> None:
        row, block_tokens = run.features, self._block_tokens
        row[f.DEPTH_TOKENS] = first * block_tokens
        row[f.RUN_TOKENS] = (end - first) * block_tokens
        row[f.TAIL_TOKENS] = (len(blocks) - end) * block_tokens
        row[f.USES] = run.uses
        row[f.GAP_S] = f.seconds_of(run.gap_ns)
        row[f.PREVIOUS_GAP_S] = f.seconds_of(run.previous_gap_ns)
        row[f.SINCE_FIRST_S] = f.seconds_of(now_ns - run.first_ns)
        row[f.RECENT_60] = run.recent_short
        row[f.RECENT_600] = run.recent_long
        row[f.CHILDREN] = blocks[end - 1].children
        row[f.SIBLINGS] = blocks[first - 1].children if first else f.UNKNOWN
        row[f.USES_TO_PARENT] = run.uses / parent_uses if parent_uses else f.UNKNOWN


def _known(block: PastBlock, stale_ns: int) -> Run | None:
    """The run of a block, unless it was never used or is forgotten."""
    run = block.run
    return None if run is None or run.idle_ns < stale_ns else run


def _count_known(blocks: Sequence[PastBlock], stale_ns: int) -> int:
    for n, block in enumerate(blocks):
        if _known(block, stale_ns) is None:
            return n
    return len(blocks)


def _continue_chain(request: PastRequest, blocks: Sequence[PastBlock], known: int, start_ns: int) -> PastRequest | None:
    """Which request this one continues: the last user of its deepest known block, if that was its last whole one."""
    last = blocks[known - 1].run if known else None
    if last is None or known + 1 < last.request.n_blocks:
        return None
    before = last.request
    request.turn = before.turn + 1
    gap_s = f.seconds_of(max(start_ns - before.finish_ns, 0))
    request.chain_gap_s = f.chain_average_s(before.chain_gap_s, gap_s)
    return before


def _new_run(old: Run | None, request: PastRequest, start_ns: int, now_ns: int) -> Run:
    """The run of blocks that stood in ``old``; ``None`` if they are new."""
    run = Run(request, start_ns, now_ns)
    if old is None:
        return run
    elapsed_ns = max(now_ns - old.idle_ns, 0)
    run.uses = old.uses + 1
    run.first_ns = old.first_ns
    run.previous_gap_ns = old.gap_ns
    run.gap_ns = max(start_ns - old.idle_ns, 0)  # 0 if its last user still ran then
    run.recent_short = f.recent_uses(old.recent_short, elapsed_ns, f.SHORT_S)
    run.recent_long = f.recent_uses(old.recent_long, elapsed_ns, f.LONG_S)
    return run
