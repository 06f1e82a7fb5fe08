"""Requests played against an offloading manager of whatever vLLM is imported, and what it decided, in a log.

The calls come in the order in which vLLM's connector makes them: lookups until the first miss, a load, offers of the
rest in prefix order, completions some steps later, some of them failed, the end of the request, and now and then a
reset. What is asked next depends on the answers, so the first different decision makes the rest of the log differ.

Source: vLLM 0.24 to 0.33, distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

STEP_NS = 50_000_000
BLOCK_TOKENS = 32
_STEP_LIMIT = 20_000
_OFFER_ATTEMPTS = 3


@dataclass(frozen=True)
class ReplayCase:
    """Which manager, and what happens to it.

    Attributes:
        name: Of the case.
        manager: ``ours``, ``stock`` (vLLM's manager and LRU) or ``plain`` (vLLM's manager, our cache policy).
        policy_file: Policy in force.
        ends_early: Whether requests end while their stores are in flight, as from 0.25 on; else after them.
        joins_in_flight: Whether a request may offer chunks that another one is storing; else it waits for them.
        reset_at_step: Step after which the cache is reset; 0 = never.
        capacity: Chunks of the pool.
        n_requests: Requests.
        seed: Of the traffic, the delays and the failures.
    """

    name: str
    manager: str = "ours"
    policy_file: str | None = None
    ends_early: bool = False
    joins_in_flight: bool = True
    reset_at_step: int = 0
    capacity: int = 96
    n_requests: int = 400
    seed: int = 1


class Stage(Enum):
    """Where a request is."""

    LOOKUP = 1
    LOADING = 2
    OFFER = 3
    DRAIN = 4


@dataclass
class Traffic:
    """One request: its chunks, what of them the device has, and how many offers it makes of the rest."""

    name: str
    chain: list[bytes]
    device_chunks: int
    n_offers: int
    context: Any = None
    stage: Stage = Stage.LOOKUP
    offers: list[list[bytes]] = field(default_factory=list)
    attempts: int = 0
    copies: int = 0


@dataclass(frozen=True)
class Copy:
    """A copy in flight."""

    due_step: int
    request: Traffic
    is_load: bool
    keys: tuple[bytes, ...]
    success: bool


class Replay:
    """Plays one case.

    Args:
        case: The case.
        manager: The manager.
        new_context: Makes a request's context from its name and the end positions of its chunks.
        answer: Names an answer of ``lookup``: hit, miss, pending or retry.
        schedule_end: Arguments of ``on_schedule_end``.
        touches: Whether this version's connector calls ``touch``.
        advance: Lets one step pass on the manager's clock.
    """

    def __init__(
        self,
        case: ReplayCase,
        manager: Any,
        new_context: Callable[[str, dict[bytes, int]], Any],
        answer: Callable[[Any], str],
        schedule_end: tuple[Any, ...],
        touches: bool,
        advance: Callable[[], None],
    ) -> None:
        self._case, self._manager, self._new_context = case, manager, new_context
        self._answer, self._schedule_end, self._touches, self._advance = answer, schedule_end, touches, advance
        self._draw = random.Random(case.seed)
        self._names: dict[bytes, str] = {}
        self._waiting = self._traffic()
        self._running: list[Traffic] = []
        self._copies: list[Copy] = []
        self._step = 0
        self.log: list[str] = []

    def run(self) -> list[str]:
        """Play everything; one line per decision, and the residents at the end."""
        while self._waiting or self._running or self._copies:
            self._take_step()
            if self._step > _STEP_LIMIT:
                raise RuntimeError(f"requests that never end: {[request.name for request in self._running]}")
        context = self._new_context("probe", {})
        answers = {key: self._answer(self._manager.lookup(key, context)) for key in self._names}
        self.log.append("residents " + self._named(key for key, answer in answers.items() if answer == "hit"))
        return self.log

    def _traffic(self) -> list[Traffic]:
        """Conversations over a few shared beginnings, revisited with different frequency, growing by turns."""
        draw, turns = self._draw, [0] * 24
        traffic = []
        for number in range(self._case.n_requests):
            talk = min(int(draw.expovariate(0.2)), len(turns) - 1)
            turns[talk] = (turns[talk] + 1) % 5
            n_chunks = 4 + talk % 5 + 2 * turns[talk]
            chain = [self._key(talk % 6 if depth < 3 else 100 + talk, depth) for depth in range(n_chunks)]
            device = draw.randrange(1, n_chunks // 2) if draw.random() < 0.3 else 0
            traffic.append(Traffic(f"r{number}", chain, device, n_offers=draw.choice((1, 1, 2, 3))))
        return traffic

    def _key(self, owner: int, depth: int) -> bytes:
        name = f"{owner}.{depth}"
        key = hashlib.sha256(name.encode()).digest() + (0).to_bytes(4, "big")
        self._names[key] = name
        return key

    def _take_step(self) -> None:
        self._step += 1
        self._advance()
        for copy in [copy for copy in self._copies if copy.due_step <= self._step]:
            self._copies.remove(copy)
            self._complete(copy)
        while self._waiting and len(self._running) < 4 and self._draw.random() < 0.7:
            self._admit(self._waiting.pop(0))
        for request in list(self._running):
            self._advance_request(request)
        self._manager.on_schedule_end(*self._schedule_end)
        if self._step == self._case.reset_at_step:
            self._reset()

    def _admit(self, request: Traffic) -> None:
        ends = {key: (depth + 1) * BLOCK_TOKENS for depth, key in enumerate(request.chain)}
        request.context = self._new_context(request.name, ends)
        self._manager.on_new_request(request.context)
        self._running.append(request)

    def _advance_request(self, request: Traffic) -> None:
        if request.stage is Stage.LOOKUP:
            self._look_up(request)
        elif request.stage is Stage.LOADING and not request.copies:
            request.stage = Stage.OFFER
        elif request.stage is Stage.OFFER:
            self._offer(request)
        if request.stage is Stage.DRAIN and (self._case.ends_early or not request.copies):
            self._running.remove(request)
            self._manager.on_request_finished(request.context)

    def _look_up(self, request: Traffic) -> None:
        run: list[bytes] = []
        for key in request.chain[request.device_chunks :]:
            answer = self._answer(self._manager.lookup(key, request.context))
            if answer != "hit":
                break
            run.append(key)
        else:
            answer = "end"
        self.log.append(f"{request.name} finds {len(run)} after {request.device_chunks}, then {answer}")
        self._touch(request)
        if answer in ("pending", "retry"):
            return
        if run:
            self._manager.prepare_load(run, request.context)
            self._begin(request, True, run)
        rest = request.chain[request.device_chunks + len(run) :] if run else request.chain
        size = max(1, -(-len(rest) // request.n_offers))
        request.offers = [rest[start : start + size] for start in range(0, len(rest), size)]
        request.stage = Stage.LOADING

    def _offer(self, request: Traffic) -> None:
        if not request.offers:
            request.stage = Stage.DRAIN
            return
        keys = request.offers[0]
        in_flight = {key for copy in self._copies if not copy.is_load for key in copy.keys}
        if not self._case.joins_in_flight and not in_flight.isdisjoint(keys):
            return
        output = self._manager.prepare_store(keys, request.context)
        if output is None:
            self.log.append(f"{request.name} finds no room for {self._named(keys)}")
            request.attempts += 1
            if request.attempts < _OFFER_ATTEMPTS:
                return
        else:
            stored, evicted = self._named(output.keys_to_store), self._named(output.evicted_keys)
            self.log.append(f"{request.name} stores {stored} for {evicted}")
            if output.keys_to_store:
                self._touch(request)
                self._begin(request, False, output.keys_to_store)
        request.attempts = 0
        del request.offers[0]

    def _touch(self, request: Traffic) -> None:
        if self._touches:
            self._manager.touch(request.chain, request.context)

    def _begin(self, request: Traffic, is_load: bool, keys: list[bytes]) -> None:
        request.copies += 1
        success = is_load or self._draw.random() > 0.05
        self._copies.append(Copy(self._step + self._draw.randrange(1, 6), request, is_load, tuple(keys), success))

    def _complete(self, copy: Copy) -> None:
        copy.request.copies -= 1
        if copy.is_load:
            self._manager.complete_load(copy.keys, copy.request.context)
        else:
            self._manager.complete_store(copy.keys, copy.request.context, copy.success)

    def _reset(self) -> None:
        """The connector drops its copies; requests that run go on, and offer everything again."""
        self.log.append("reset")
        self._manager.reset_cache()
        self._copies.clear()
        for request in self._running:
            request.copies = 0
            if request.stage is not Stage.LOOKUP:
                request.stage, request.offers = Stage.OFFER, [request.chain]

    def _named(self, keys: Any) -> str:
        return "[" + " ".join(self._names[key] for key in keys) + "]"
