"""What a user should know about the settings that were rendered for vLLM.

Sources are those of :mod:`autotune.export.vllm`.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.policy import PolicyDocument, StoredTier
from autotune.core.types import Admission, StoreMode
from autotune.core.units import GIB
from autotune.export.renderer import ExportRequest, Flavor
from autotune.export.shared import RULES, no_write_budget

TESTED_VERSIONS = "0.24 to 0.33"
CHUNK_VERSION = "0.26"  # blocks_per_chunk came with it; block_size is older


def notes(request: ExportRequest, host: StoredTier) -> tuple[str, ...]:
    """All notes: first what could not be expressed, then what the figures mean, then what may change later."""
    plugin = request.flavor is Flavor.PLUGIN
    return (
        *_left_out_by_both(request),
        *(_left_out_by_plugin(request, host) if plugin else _left_out_by_stock(request.document, host)),
        *_sizes(request),
        *_chunks(request, host),
        *(_live(request) if plugin else _stock_changes()),
        *_versions(request),
    )


def _left_out_by_both(request: ExportRequest) -> Iterator[str]:
    document = request.document
    if document.tiers.disk is not None and request.disk_dir is None:
        yield (
            f"not expressed: the disk tier of {_gib(document.budgets.disk_bytes)}; vLLM's own needs a folder "
            "(--disk-dir), and keeps no budget"
        )
    elif document.tiers.disk is not None:
        yield (
            f"not expressed: the budget of {_gib(document.budgets.disk_bytes)} on disk; vLLM writes into "
            f"{request.disk_dir} without a limit, and deletes nothing there"
        )
    if document.tiers.device.admission is not Admission.ALL:
        yield (
            f"not expressed: admission '{document.tiers.device.admission}' on the device; "
            "vLLM keeps every block there that it computes, until its room is needed"
        )
    if document.streaming is not None:
        yield "not expressed: streaming of running requests; vLLM keeps their KV on the device"


def _left_out_by_plugin(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    if host.store_mode is StoreMode.EXCLUSIVE:
        yield "not expressed: store mode 'exclusive'; obeyed as 'lazy': a loaded block keeps its copy on the host"
    if host.store_mode is not StoreMode.EAGER and host.chunk_tokens not in (0, request.block_tokens):
        yield f"not expressed: store mode '{host.store_mode}' with chunks; chunks are stored when they are computed"


def _left_out_by_stock(document: PolicyDocument, host: StoredTier) -> Iterator[str]:
    if host.policy in RULES:
        yield f"not expressed: the {RULES[host.policy]} of the host; vLLM's own LRU evicts there"
    if document.tiers.device.policy in RULES:
        yield (
            f"not expressed: the {RULES[document.tiers.device.policy]} of the device; "
            "vLLM evicts there in order of last use"
        )
    if host.admission is Admission.MARGINAL:
        yield "not expressed: admission 'marginal' on the host; every block is stored"
    yield from no_write_budget(document)
    if host.admission is Admission.TWO_HIT:
        yield "admission 'two_hit' is store_threshold 2: a block is stored when it is offered for the second time"
    if host.store_mode is not StoreMode.EAGER:
        yield f"not expressed: store mode '{host.store_mode}'; vLLM stores blocks as soon as they are computed"
    yield "not expressed: load or recompute; vLLM loads whatever the host has, however short the run"
    if document.fingerprint.adapter_rule != "any":
        yield f"not expressed: adapter rule '{document.fingerprint.adapter_rule}'; vLLM offloads blocks of adapters too"
    if document.hints is not None:
        yield "not expressed: hints of clients"
    yield "nothing of kv-autotune has to be installed beside this engine, and the policy file is not read by it"


def _sizes(request: ExportRequest) -> Iterator[str]:
    host, device = request.document.budgets.host_bytes, request.document.budgets.device_bytes
    share = (
        f"{device // request.ranks}, which counts per rank"
        if request.ranks > 1
        else f"{device} divided by the number of ranks"
    )
    yield (
        f"cpu_bytes_to_use is {host:,} bytes ({_gib(host)}): the total over all tensor- and pipeline-parallel ranks "
        "of one engine, not a share of each rank; every data-parallel replica takes as much again"
    )
    yield (
        f"the device budget of {device:,} bytes ({_gib(device)}, over all ranks) is no part of this argument: start "
        f"vLLM with --kv-cache-memory-bytes {share}, or check that what it finds is near it"
    )


def _chunks(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    if host.chunk_tokens and request.block_tokens is None:
        yield (
            f"block_size says that {host.chunk_tokens:,} tokens are stored together; vLLM refuses it at its start "
            "unless that is a multiple of its own block size; give --block-size to have it checked here"
        )
    elif host.chunk_tokens:
        yield f"blocks_per_chunk needs vLLM {CHUNK_VERSION} or newer and an engine with --block-size " + str(
            request.block_tokens
        )


def _live(request: ExportRequest) -> Iterator[str]:
    yield (
        f"live: replace {request.policy_path} at any time; the engine checks the new file before it uses it, and keeps "
        "the old policy if it is not valid"
    )
    yield "restart needed: the size of the host pool (cpu_bytes_to_use) and chunks (blocks_per_chunk, block_size)"


def _stock_changes() -> Iterator[str]:
    yield "restart needed: for every change, since vLLM reads these settings once"


def _versions(request: ExportRequest) -> Iterator[str]:
    expected = request.document.fingerprint
    yield (
        f"for vLLM {TESTED_VERSIONS}"
        + (f" (the policy says {', '.join(expected.engines)})" if expected.engines else "")
        + f", model {expected.model}, {expected.kv_bytes_per_token:,} bytes of KV per token"
        + ("; an engine that is another runs as stock LRU and says so" if request.flavor is Flavor.PLUGIN else "")
    )
    yield "leave --kv-offloading-size away: it would overwrite the connector and the size given here"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:,.4g} GiB"
