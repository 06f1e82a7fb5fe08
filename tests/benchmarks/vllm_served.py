"""Throughput of a served model with our plug-in against stock vLLM, in interleaved pairs of bursts.

Run in the engine's environment: ``python tests/benchmarks/vllm_served.py [--pairs 30]``. Two servers stand side by
side with the same tiny model, the same host pool and the same copies; one has vLLM's own connector, manager and LRU,
the other ours, under LRU (the same decisions, so overhead alone) or the rank rule. Both get the same bursts, in turns;
what counts is the ratio within each pair.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from replay import ask
from server import Server, ServerSettings, stock_config
from tiny_model import VOCABULARY, build

from autotune.core.policy import LruDocument, PolicyDocument, StoredTier, Tiers
from autotune.export import render
from autotune.testing.documents import example_document

HOST_BYTES, DEVICE_BLOCKS, MAX_TOKENS = 48 << 20, 128, 2048
KV_BYTES_PER_TOKEN = 2048  # 4 layers x 2 x 4 heads x 32 x 2 bytes
T_975 = {29: 2.045, 39: 2.023, 59: 2.001}  # Student's t for 30, 40 and 60 pairs


def document_for(model: Path, kind: str) -> PolicyDocument:
    """The example policy, made out for the tiny model; or plain LRU, which decides as stock does: overhead alone."""
    document = example_document()
    fingerprint = document.fingerprint.model_copy(
        update={"model": model.name, "kv_bytes_per_token": KV_BYTES_PER_TOKEN}
    )
    costs = document.costs.model_copy(update={"kv_bytes_per_token": KV_BYTES_PER_TOKEN})
    if kind == "lru":
        return LruDocument(
            fingerprint=fingerprint, budgets=document.budgets, tiers=Tiers(host=StoredTier()), costs=costs
        )
    return document.model_copy(update={"fingerprint": fingerprint, "costs": costs})


def our_config(folder: Path, document: PolicyDocument) -> str:
    """The argument for our plug-in, as ``kv-autotune export`` writes it."""
    policy = folder / "policy.yaml"
    policy.write_text(render(document), "utf-8")
    extra = {
        "spec_name": "AutotuneOffloadingSpec",
        "spec_module_path": "autotune_policies.engines.vllm.spec",
        "cpu_bytes_to_use": HOST_BYTES,
        "policy_file": str(policy),
    }
    connector = {
        "kv_connector": "AutotuneConnector",
        "kv_connector_module_path": "autotune_policies.engines.vllm.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }
    return json.dumps(connector)


def burst(rng: random.Random, prefixes: list[list[int]], n: int) -> list[list[int]]:
    """Prompts of one burst: half of them go on from earlier ones, so that the host is read and written."""
    prompts = []
    for _ in range(n):
        start = rng.choice(prefixes[-200:]) if prefixes and rng.random() < 0.5 else []
        prompt = [*start, *(rng.randrange(VOCABULARY) for _ in range(rng.randrange(64, 512)))][: MAX_TOKENS - 64]
        prefixes.append(prompt)
        prompts.append(prompt)
    return prompts


async def serve(session: Any, url: str, prompts: list[list[int]]) -> float:
    """Seconds until the whole burst is answered."""
    began = time.perf_counter()
    await asyncio.gather(*(ask(session, url, prompt, 16, time.monotonic()) for prompt in prompts))
    return time.perf_counter() - began


async def measure(urls: dict[str, str], pairs: int, requests: int) -> list[float]:
    """Seconds of ours divided by seconds of stock, per pair, after three pairs that warm both up."""
    import aiohttp

    rng, prefixes, ratios = random.Random(0), list[list[int]](), list[float]()
    # A connection each: while one server is measured, the other closes those that idle.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(300)) as session:
        for pair in range(-3, pairs):
            prompts = burst(rng, prefixes, requests)
            order = list(urls) if pair % 2 else list(reversed(urls))
            seconds = {name: await serve(session, urls[name], prompts) for name in order}
            if pair >= 0:
                ratios.append(seconds["ours"] / seconds["stock"])
                print(f"pair {pair + 1:>3}: ours {seconds['ours']:.2f} s, stock {seconds['stock']:.2f} s", flush=True)
    return ratios


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean of the ratios with its 95 % interval, by Student's t on their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    half = T_975.get(len(logs) - 1, 1.96) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    """Start both servers, measure, stop them, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--requests", type=int, default=72)
    parser.add_argument("--policy", choices=("lru", "rank"), default="lru")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = build(folder / "tiny-llama")
        configs = {
            "stock": stock_config("lru", HOST_BYTES, {}),
            "ours": our_config(folder, document_for(model, chosen.policy)),
        }
        servers = {
            name: Server(
                ServerSettings(
                    python=Path(sys.executable),
                    model=model,
                    device_blocks=DEVICE_BLOCKS,
                    max_model_tokens=MAX_TOKENS,
                    log=folder / f"{name}.log",
                    kv_transfer_config=config,
                )
            )
            for name, config in configs.items()
        }
        with servers["stock"], servers["ours"]:
            ratios = asyncio.run(
                measure({name: one.url for name, one in servers.items()}, chosen.pairs, chosen.requests)
            )
    mean, low, high = interval(ratios)
    print(f"time of ours / time of stock over {len(ratios)} pairs: {mean:.4f}, 95 % interval {low:.4f} to {high:.4f}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"ratios": ratios, "mean": mean, "low": low, "high": high}) + "\n")


if __name__ == "__main__":
    main()
