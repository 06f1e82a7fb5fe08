"""Replays a trace against a server: every request at its own time, whether or not the ones before it have ended.

Run as a script in an environment that has vLLM; it prints one JSON object per line: ``{"done": n}`` while it runs, and
at last ``{"replay": ...}`` (see :class:`Replay`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metrics_page import EngineCounters, parse
from scaled_trace import prompt_tokens, read_mooncake
from server import SERVED_NAME

from autotune.core.errors import AutotuneError
from autotune.core.trace import Trace

DEFAULT_IN_FLIGHT = 64
_TIMEOUT_S = 300.0
_EVENT = b"data: "


class ReplayError(AutotuneError):
    """A server did not answer a request as it should."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One request's outcome.

    Attributes:
        token_ids: Generated tokens.
        ttft_s: Seconds from the request's time in the trace to its first token; waiting at the client counts.
        e2e_s: Seconds to its last token.
        cached_tokens: Prompt tokens that the engine found on the device or on the host.
    """

    token_ids: tuple[int, ...]
    ttft_s: float
    e2e_s: float
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A whole replay.

    Attributes:
        answers: One per request, in the order of the trace.
        counters: What the engine counted meanwhile.
    """

    answers: tuple[Answer, ...]
    counters: EngineCounters

    @classmethod
    def of(cls, tree: dict[str, Any]) -> Replay:
        """From the object that the script prints."""
        answers = tuple(Answer(**{**one, "token_ids": tuple(one["token_ids"])}) for one in tree["answers"])
        return cls(answers, EngineCounters(**tree["counters"]))


async def replay(
    url: str,
    trace: Trace,
    vocabulary: int,
    *,
    max_in_flight: int = DEFAULT_IN_FLIGHT,
    on_done: Callable[[int], None] = lambda done: None,
) -> Replay:
    """Send every request at its time and wait for all.

    Args:
        url: Base address of the server.
        trace: A cut as :mod:`scaled_trace` makes it.
        vocabulary: Tokens that the model knows.
        max_in_flight: Requests that are sent and not yet answered; later ones wait, and their waiting counts.
        on_done: Called with the number of answered requests.

    Raises:
        ReplayError: a request failed.
    """
    import aiohttp

    gate = asyncio.Semaphore(max_in_flight)
    prompts = [
        prompt_tokens(trace.blocks_of(i), int(trace.input_tokens[i]), vocabulary) for i in range(trace.n_requests)
    ]
    done = 0
    # A connection each: the server closes those that idle, which a request sent at that moment would not survive.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(_TIMEOUT_S)) as session:
        before = await counters(session, url)
        start_s = time.monotonic()

        async def one(request: int) -> Answer:
            nonlocal done
            due_s = start_s + float(trace.arrival_s[request])
            await asyncio.sleep(due_s - time.monotonic())
            async with gate:
                answer = await ask(session, url, prompts[request], int(trace.output_tokens[request]), due_s)
            done += 1
            on_done(done)
            return answer

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in range(trace.n_requests)]
        after = await _settled(session, url)
    return Replay(tuple(task.result() for task in tasks), after - before)


async def ask(session: Any, url: str, prompt: list[int], output_tokens: int, due_s: float) -> Answer:
    """Send one request and read its answer as it comes.

    Raises:
        ReplayError: the server refused it, or its answer has not the length that was asked for.
    """
    body = {
        "model": SERVED_NAME,
        "prompt": prompt,
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    tokens: list[int] = []
    cached_tokens = 0
    first_s = last_s = 0.0
    async with session.post(f"{url}/v1/completions", json=body) as response:
        if response.status != 200:
            raise ReplayError("a request must be answered", got=f"{response.status}: {await response.text()}")
        async for event in _events(response):
            for choice in event["choices"]:
                last_s = time.monotonic()
                first_s = first_s or last_s
                tokens += choice["token_ids"] or []
            if event.get("usage"):
                cached_tokens = (event["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    if len(tokens) != output_tokens:
        raise ReplayError(f"an answer must have {output_tokens} tokens", got=len(tokens))
    return Answer(tuple(tokens), first_s - due_s, last_s - due_s, cached_tokens)


async def counters(session: Any, url: str) -> EngineCounters:
    """What the engine has counted so far."""
    async with session.get(f"{url}/metrics") as response:
        return parse(await response.text())


async def _settled(session: Any, url: str) -> EngineCounters:
    """The counters once they no longer change: the last stores end a moment after the last answer."""
    now = await counters(session, url)
    for _ in range(20):
        await asyncio.sleep(0.25)
        last, now = now, await counters(session, url)
        if now == last:
            break
    return now


async def _events(response: Any) -> AsyncIterator[dict[str, Any]]:
    """The objects of a stream of server-sent events."""
    async for line in response.content:
        if line.startswith(_EVENT) and not line.startswith(_EVENT + b"[DONE]"):
            event: dict[str, Any] = json.loads(line[len(_EVENT) :])
            if "error" in event:
                raise ReplayError("a request must be answered", got=event["error"])
            yield event


def say(name: str, value: object) -> None:
    """One line of output for whoever started this script."""
    sys.stdout.write(json.dumps({name: value}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Replay a file."""
    parser = argparse.ArgumentParser(description="Replay a scaled-down trace against a server.")
    parser.add_argument("url")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--max-in-flight", type=int, default=DEFAULT_IN_FLIGHT)
    given = parser.parse_args()
    trace = read_mooncake(given.trace)
    outcome = asyncio.run(
        replay(
            given.url,
            trace,
            given.vocabulary,
            max_in_flight=given.max_in_flight,
            on_done=lambda done: say("done", done),
        )
    )
    say("replay", asdict(outcome))


if __name__ == "__main__":
    main()
