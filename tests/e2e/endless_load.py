"""An endless load with the prefix structure of a recorded trace, whose nature can be changed while it runs.

It comes in rounds. In each, the same conversations of the recording begin at the same moments, as new ones: their
blocks get ids of their own, except the system prompt that all share. Their further requests follow after the recorded
pauses, divided by one factor, into the rounds after. So any stretch of whole rounds asks for the same, and what is
measured in two of them can be compared.

Run as a script in an environment that has vLLM. It reads one JSON object per line, ``{"nature": NAME}``, which changes
the load at once; the end of its input ends it. It prints ``{"answered": n, "failed": n}`` once a second.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from replay import ReplayError, ask, say
from scaled_trace import conversations, prompt_tokens, read_mooncake

from autotune.core.trace import Trace

ROUND_S = 14.0
_SYSTEM_ID, _FIRST_ID = 1, 1_000
_ROUNDS_BEFORE = 6  # of conversations that are under way when the load begins
_MAX_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Nature:
    """What kind of load; numbers are per round.

    Attributes:
        turns: Least and most requests of a conversation.
        chats: Conversations that begin.
        strangers: Requests that nothing follows.
        stranger_blocks: Least and most blocks of their prompts.
        hurry: Recorded pauses within a conversation get this many times shorter.
        seed: Which conversations are drawn, and when in the round they begin.
    """

    turns: tuple[int, int]
    chats: int
    strangers: int
    hurry: float
    stranger_blocks: tuple[int, int] = (8, 24)
    seed: int = 3


NATURES = {
    # People who come back four to nine times after some seconds, among documents that nobody asks about again.
    "long chats": Nature(turns=(4, 9), chats=12, strangers=40, hurry=21.0),
    # Everybody comes back once, soon: what was used twice is of no use any more.
    "one question more": Nature(turns=(2, 2), chats=45, strangers=10, hurry=57.0),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        at_s: Seconds since the load began.
        block_ids: Blocks of the prompt, in prefix order.
        input_tokens: Length of the prompt.
        output_tokens: Length of the answer.
    """

    at_s: float
    block_ids: tuple[int, ...]
    input_tokens: int
    output_tokens: int


Conversation = tuple[Ask, ...]  # times since its first request; blocks numbered from 0, the system prompt is -1


def endless(recorded: Sequence[Conversation], nature: Nature, first_id: int = _FIRST_ID) -> Iterator[Ask]:
    """Requests in order of their times, without end.

    Args:
        recorded: Conversations to draw from.
        nature: What kind of load.
        first_id: Ids of blocks begin here.
    """
    plan = _plan(recorded, nature)
    waiting: list[tuple[float, int, Ask]] = []
    ids, order = itertools.count(first_id), itertools.count()
    for number in itertools.count(-_ROUNDS_BEFORE):
        for start_s, conversation in plan:
            for each in _fresh(conversation, number * ROUND_S + start_s, nature.hurry, ids):
                if each.at_s >= 0.0:
                    heapq.heappush(waiting, (each.at_s, next(order), each))
        while waiting and waiting[0][0] < (number + 1) * ROUND_S:
            yield heapq.heappop(waiting)[2]


def recorded_conversations(trace: Trace) -> list[Conversation]:
    """Conversations of a cut as :mod:`scaled_trace` makes it, in order of their beginning."""
    members: dict[int, list[int]] = {}
    for request, conversation in enumerate(conversations(trace).tolist()):
        members.setdefault(conversation, []).append(request)
    firsts, counts = np.unique(trace.block_ids[trace.block_offsets[:-1]], return_counts=True)
    system = int(firsts[counts.argmax()])
    return [_conversation(trace, requests, system) for requests in members.values()]


def _conversation(trace: Trace, requests: list[int], system: int) -> Conversation:
    numbers: dict[int, int] = {system: -1}
    return tuple(
        Ask(
            float(trace.arrival_s[request] - trace.arrival_s[requests[0]]),
            tuple(numbers.setdefault(block, len(numbers) - 1) for block in trace.blocks_of(request).tolist()),
            int(trace.input_tokens[request]),
            int(trace.output_tokens[request]),
        )
        for request in requests
    )


def _plan(recorded: Sequence[Conversation], nature: Nature) -> list[tuple[float, Conversation]]:
    """Which conversations begin in a round, and when in it: spread evenly, in an order drawn once."""
    rng = np.random.default_rng(nature.seed)
    least, most = nature.stranger_blocks
    groups = (
        ([each for each in recorded if nature.turns[0] <= len(each) <= nature.turns[1]], nature.chats),
        ([each for each in recorded if len(each) == 1 and least <= len(each[0].block_ids) <= most], nature.strangers),
    )
    plan = []
    for pool, wanted in groups:
        drawn = rng.permutation(len(pool))[:wanted]
        starts_s = (rng.permutation(wanted) + rng.random(wanted)) / max(1, wanted) * ROUND_S
        plan += [(float(start_s), pool[i]) for start_s, i in zip(starts_s, drawn, strict=False)]
    return plan


def _fresh(conversation: Conversation, start_s: float, hurry: float, ids: Iterator[int]) -> Iterator[Ask]:
    """A conversation with blocks that nobody has asked for."""
    known = {-1: _SYSTEM_ID}
    for each in conversation:
        for block in each.block_ids:
            if block not in known:
                known[block] = next(ids)
        blocks = tuple(known[block] for block in each.block_ids)
        yield Ask(start_s + each.at_s / hurry, blocks, each.input_tokens, each.output_tokens)


class Sender:
    """Sends a load to a server, each request at its time.

    Args:
        url: Base address of the server.
        vocabulary: Tokens that the model knows.

    Attributes:
        answered: Requests that were answered as they should.
        failed: Requests that were not.
    """

    def __init__(self, url: str, vocabulary: int) -> None:
        self._url, self._vocabulary = url, vocabulary
        self.answered = self.failed = 0

    async def send(self, session: Any, load: Iterator[Ask]) -> None:
        """Send without end, until the task is cancelled; what is under way is still answered."""
        gate, start_s = asyncio.Semaphore(_MAX_IN_FLIGHT), time.monotonic()
        tasks: set[asyncio.Task[None]] = set()
        for each in load:
            due_s = start_s + each.at_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            task = asyncio.create_task(self._one(session, gate, each, due_s))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _one(self, session: Any, gate: asyncio.Semaphore, each: Ask, due_s: float) -> None:
        import aiohttp

        prompt = prompt_tokens(np.array(each.block_ids), each.input_tokens, self._vocabulary)
        try:
            async with gate:
                await ask(session, self._url, prompt, each.output_tokens, due_s)
            self.answered += 1
        except (ReplayError, aiohttp.ClientError, TimeoutError):
            self.failed += 1


async def serve(url: str, recorded: Sequence[Conversation], vocabulary: int, first: str) -> None:
    """Run a load until the end of standard input."""
    import aiohttp

    sender, numbers = Sender(url, vocabulary), itertools.count(1)
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60.0)) as session:

        def begin(name: str) -> asyncio.Task[None]:
            load = endless(recorded, NATURES[name], next(numbers) * 100_000_000)
            return asyncio.create_task(sender.send(session, load))

        running, teller = begin(first), asyncio.create_task(_tell(sender))
        async for line in _lines():
            running.cancel()
            running = begin(json.loads(line)["nature"])
        for task in (running, teller):
            task.cancel()


async def _tell(sender: Sender) -> None:
    while True:
        await asyncio.sleep(1.0)
        say("answered", sender.answered)
        say("failed", sender.failed)


async def _lines() -> Any:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        yield line


def main() -> None:
    """Run a load."""
    parser = argparse.ArgumentParser(description="An endless load with the prefix structure of a recorded trace.")
    parser.add_argument("url")
    parser.add_argument("cut", type=Path, help="file of the cut, as scaled_trace.py writes it")
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--nature", choices=NATURES, default=next(iter(NATURES)))
    given = parser.parse_args()
    recorded = recorded_conversations(read_mooncake(given.cut))
    asyncio.run(serve(given.url, recorded, given.vocabulary, given.nature))


if __name__ == "__main__":
    main()
