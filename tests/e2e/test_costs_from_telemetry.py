"""Costs of a real server, learned from what its plug-in writes, against the times that a client saw."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from replay import ask
from scaled_trace import BLOCK_TOKENS, prompt_tokens
from server import Server, ServerSettings, environment
from tiny_model import VOCABULARY

from autotune.core.telemetry.segments import read_segments, read_transfers
from autotune.costs import load_hardware, profile
from autotune.costs.live import LiveCosts
from autotune.costs.model import TableCosts
from autotune.geometry import load_model

pytestmark = [pytest.mark.engine("vllm", "aiohttp", "msgspec"), pytest.mark.slow]

BLOCKS = (8, 16, 24, 32, 48, 64)
ROUNDS = 6
DEVICE_BLOCKS, HOST_BLOCKS = 80, 600


def config(records: Path, host_bytes: int) -> str:
    """The plug-in under the engine's own LRU, writing its records to a folder."""
    extra = {
        "spec_name": "AutotuneOffloadingSpec",
        "spec_module_path": "autotune_policies.engines.vllm.spec",
        "cpu_bytes_to_use": host_bytes,
        "telemetry": f"file:{records}",
    }
    return json.dumps(
        {
            "kv_connector": "AutotuneConnector",
            "kv_connector_module_path": "autotune_policies.engines.vllm.connector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }
    )


async def traffic(url: str) -> list[float]:
    """Prompts of several lengths, one after the other: fresh ones, then the same again from the host.

    Returns:
        Times to the first token of the fresh ones, in order.
    """
    import aiohttp

    first_token_s = []
    async with aiohttp.ClientSession() as session:
        for turn in range(ROUNDS):
            for again in (False, True):
                for place, n_blocks in enumerate(BLOCKS):
                    first = 100_000 + 1_000 * (turn * len(BLOCKS) + place)
                    ids = np.arange(first, first + n_blocks, dtype=np.int32)
                    prompt = prompt_tokens(ids, n_blocks * BLOCK_TOKENS, VOCABULARY)
                    answer = await ask(session, url, prompt, 2, time.monotonic())
                    if not again:
                        first_token_s.append(answer.ttft_s)
    return first_token_s


def test_the_servers_costs_come_out_of_its_records(tmp_path: Path) -> None:
    """Every prefill is told and lies within the client's waiting time; the fit explains them, and finds both links."""
    model, records = tmp_path / "tiny-llama", tmp_path / "records"
    script = [sys.executable, str(Path(__file__).parent / "tiny_model.py"), "llama", str(model)]
    subprocess.run(script, check=True, env=environment(), capture_output=True)
    shape = load_model(str(model))
    block_bytes = BLOCK_TOKENS * shape.kv_bytes_per_token
    settings = ServerSettings(
        python=Path(sys.executable),
        model=model,
        device_blocks=DEVICE_BLOCKS,
        max_model_tokens=DEVICE_BLOCKS * BLOCK_TOKENS,
        log=tmp_path / "server.log",
        kv_transfer_config=config(records, HOST_BLOCKS * block_bytes),
    )
    with Server(settings) as server:
        seen_s = asyncio.run(traffic(server.url))
    costs = LiveCosts(TableCosts(profile(shape, load_hardware("h100-sxm"))), BLOCK_TOKENS)
    runs = list(read_segments(records))
    for record in runs:
        costs.access(record)
    for copy in read_transfers(records):
        costs.transfer(copy)
    told_s = np.array([record.seconds for record in runs if record.tier is None])
    assert len(told_s) == len(seen_s) == len(BLOCKS) * ROUNDS
    assert (told_s > 0.0).all()
    assert (told_s < np.array(seen_s)).all()  # the engine's part of what the client waited for …
    assert np.median(told_s / np.array(seen_s)) > 0.5  # … and most of it
    known = {estimate.name: estimate for estimate in costs.estimates(0.0)}
    assert known["prefill_linear_s"].samples == len(told_s)
    assert known["load_bytes_per_s"].samples >= len(BLOCKS)
    assert known["store_bytes_per_s"].samples >= len(BLOCKS)
    found, fixed_s = costs.profile(), known["prefill_fixed_s"].value
    fitted_s = fixed_s + found.prefill_s([n * BLOCK_TOKENS for n in BLOCKS] * ROUNDS)
    assert np.median(np.abs(np.log(fitted_s / told_s))) < np.log(2.0)
    assert 1e7 < found.load_bytes_per_s < 1e12
