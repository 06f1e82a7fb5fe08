"""What following KV events costs: the share of a core at a steady rate, and whether anything is missed.

    python tests/benchmarks/kv_events.py [--seconds 20] [--rates 1000 10000]

An engine's publisher is played by another process: a message per scheduler step, 50 steps a second, each with stores
of one block of 16 tokens and as many removals. The collector runs as in the sidecar: its own thread, and a turn of the
loop every five seconds. CPU is that of the whole process, ZMQ's thread included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from dataclasses import dataclass

import msgspec
import zmq

from autotune.core.types import Tier
from autotune_collectors.kv_events.collector import EventSource, EventsView, KvEventsCollector

STEPS_PER_S = 50
RESIDENT_BLOCKS = 20_000
TURN_S = 5.0
BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Measured:
    """One run.

    Attributes:
        events_per_s: Events that were asked for.
        core_frac: CPU seconds per second.
        view: What the collector knew at its end.
        resident_mib: Largest memory of the process.
    """

    events_per_s: int
    core_frac: float
    view: EventsView
    resident_mib: float


def publish(folder: str, events_per_s: int, seconds: float, ready: multiprocessing.synchronize.Event) -> None:
    """Play an engine: blocks come and, once the tier is full, as many go; one message a step."""
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    socket.setsockopt(zmq.SNDHWM, 100_000)
    socket.bind(f"ipc://{folder}/pub")
    ready.wait()
    tokens = list(range(BLOCK_TOKENS))
    encoder = msgspec.msgpack.Encoder()
    n_each = events_per_s // STEPS_PER_S // 2
    start_s = time.monotonic()
    for step in range(int(seconds * STEPS_PER_S)):
        events: list[dict[str, object]] = []
        for block in range(step * n_each, (step + 1) * n_each):
            common = {"medium": "GPU", "group_idx": 0}
            stored = {"block_hashes": [hash_of(block)], "parent_block_hash": hash_of(block - 1), "token_ids": tokens}
            events.append({"type": "BlockStored", **stored, "block_size": BLOCK_TOKENS, "lora_id": None, **common})
            gone = block - RESIDENT_BLOCKS
            events.append({"type": "BlockRemoved", "block_hashes": [hash_of(gone)] if gone >= 0 else [], **common})
        payload = encoder.encode([time.monotonic(), events, 0])
        socket.send_multipart((b"", step.to_bytes(8, "big"), payload))
        time.sleep(max(0.0, start_s + (step + 1) / STEPS_PER_S - time.monotonic()))
    time.sleep(1.0)
    socket.close(linger=1_000)
    context.term()


def hash_of(block: int) -> int:
    """A number of 64 bits for a block, spread as hashes are."""
    return block * 0x9E3779B97F4A7C15 % 2**64


def measure(events_per_s: int, seconds: float) -> Measured:
    """Follow a publisher for some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        ready = multiprocessing.get_context("spawn").Event()
        process = multiprocessing.get_context("spawn").Process(
            target=publish, args=(folder, events_per_s, seconds, ready)
        )
        process.start()
        collector = KvEventsCollector(EventSource(f"ipc://{folder}/pub"))
        while not (collector.collect(0.0).ok and collector.view().connected):
            time.sleep(0.05)
        time.sleep(0.2)
        before_s, start_s = time.process_time(), time.monotonic()
        ready.set()
        while (elapsed_s := time.monotonic() - start_s) < seconds:
            time.sleep(min(TURN_S, seconds - elapsed_s))
            collector.collect(time.monotonic())
        used_s, elapsed_s = time.process_time() - before_s, time.monotonic() - start_s
        time.sleep(0.5)
        collector.collect(time.monotonic())
        view = collector.view()
        collector.close()
        process.join()
    return Measured(events_per_s, used_s / elapsed_s, view, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print one line per rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each run")
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000], help="events per second")
    arguments = parser.parse_args()
    print("| events/s | events | share of a core | messages lost | device usable | memory |")
    print("| ---: | ---: | ---: | ---: | --- | ---: |")
    for rate in arguments.rates:
        found = measure(rate, arguments.seconds)
        device = found.view.tiers[Tier.DEVICE]
        print(
            f"| {rate:,} | {found.view.events.events:,} | {found.core_frac:.2%} | {found.view.stream.lost_messages} | "
            f"{'yes' if device.usable else device.reason} | {found.resident_mib:.0f} MiB |"
        )


if __name__ == "__main__":
    main()
