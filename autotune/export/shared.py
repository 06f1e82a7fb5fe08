"""What several renderers ask of a policy, and the ways in which they write figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument, StoredTier, Streaming
from autotune.core.types import Admission, StoreMode
from autotune.core.units import GB, GIB
from autotune.export.renderer import ExportRequest, Flavor

RULES = {"rank": "rank rule", "class_hazard": "learned rule"}
"""What a tier's policy is called where an engine does not have it; LRU they all have."""


def confirmed(document: PolicyDocument) -> PolicyDocument:
    """The document itself.

    Raises:
        ConfigError: it is a trial, which ends while the engine that was started with it runs on.
    """
    if document.lease is not None:
        raise ConfigError(
            "an engine is started with a confirmed policy",
            got=f"a trial that ends at {document.lease.expires_at:%Y-%m-%d %H:%M:%S} UTC",
            remedy="export the confirmed policy (the trial's lease.fallback), then replace its file by the trial",
        )
    return document


def stock_only(request: ExportRequest, engine: str) -> PolicyDocument:
    """The confirmed document, for an engine in which nothing of ours runs.

    Raises:
        ConfigError: our plug-in was asked for, or the policy is a trial.
    """
    if request.flavor is Flavor.PLUGIN:
        raise ConfigError(
            f"there is no plug-in of kv-autotune for {engine}",
            got="--flavor plugin",
            remedy="leave --flavor away: the engine's own settings are written",
        )
    return confirmed(request.document)


def host_of(document: PolicyDocument, engine: str) -> StoredTier:
    """The policy's host tier.

    Raises:
        ConfigError: there is none.
    """
    if document.tiers.host is None:
        raise ConfigError(
            f"{engine} is told about the host tier, so the policy must have one",
            got="budgets.host_bytes 0",
            remedy="tune again with --host-gib, or start the engine without these settings",
        )
    return document.tiers.host


def streaming_of(document: PolicyDocument, engine: str) -> Streaming:
    """The policy's section on streaming.

    Raises:
        ConfigError: there is none.
    """
    if document.streaming is None:
        raise ConfigError(
            f"{engine} is told which share of the running requests' KV stays on the device",
            got="a policy without the section 'streaming'",
            remedy="add streaming.resident_frac and streaming.prefetch_depth, or tune with --engine transformers",
        )
    return document.streaming


def check_host_is_larger(document: PolicyDocument, why: str, remedy: str) -> None:
    """Refuse a host tier that would hold nothing but copies of what the device has.

    Args:
        document: The policy.
        why: What the engine does that makes it so.
        remedy: What else the user may do than to change the budgets.

    Raises:
        ConfigError: the host tier is not larger than the device tier.
    """
    host, device = document.budgets.host_bytes, document.budgets.device_bytes
    if host <= device:
        raise ConfigError(
            f"the host tier must be larger than the device tier: {why}, so a smaller one only mirrors it",
            got=f"{gib(host)} on the host and {gib(device)} on the device",
            remedy=f"give the host more than {gib(device)}{f', or {remedy}' if remedy else ''}",
        )


def check_divides(tokens: int, block_tokens: int | None, what: str, remedy: str) -> None:
    """Refuse a chunk that whole blocks of the engine do not fill; without a known block there is nothing to check.

    Raises:
        ConfigError: they do not.
    """
    if block_tokens is not None and tokens % block_tokens:
        raise ConfigError(
            f"{what} must be a multiple of the engine's block of {block_tokens:,} tokens",
            got=f"{tokens:,}",
            remedy=remedy,
        )


def per_rank(size_bytes: int, ranks: int, what: str) -> int:
    """Bytes of one rank's share, rounded down.

    Raises:
        ConfigError: nothing is left of it.
    """
    share = size_bytes // ranks
    if share < 1:
        raise ConfigError(
            f"{what} must be at least a byte per rank",
            got=f"{size_bytes:,} bytes for {ranks:,} ranks",
            remedy="give fewer --ranks, or a larger budget",
        )
    return share


def device_for_vllm(request: ExportRequest) -> str:
    """The note on the device budget, where vLLM keeps it beside what is rendered."""
    device = request.document.budgets.device_bytes
    return (
        f"the device budget of {device:,} bytes ({gib(device)}, over all ranks) belongs to the engine: start vLLM with "
        f"--kv-cache-memory-bytes {device // request.ranks}, which counts per rank of {request.ranks:,}"
    )


def flags(*words: str | int | float) -> str:
    """Words of a command line, quoted where a shell needs it."""
    return shlex.join(str(word) for word in words)


def gib(size_bytes: int) -> str:
    """Bytes for people."""
    return f"{size_bytes / GIB:,.4g} GiB"


def restart(what: str = "every change, since the engine reads these settings once") -> str:
    """The note on what may be changed while the engine runs."""
    return f"restart needed: for {what}"


def for_version(document: PolicyDocument, engine: str, versions: str) -> str:
    """The note on the versions of the engine, and on the engine and model that the policy is meant for."""
    expected = document.fingerprint
    meant = f"; the policy was tuned for {', '.join(expected.engines)}" if expected.engines else ""
    return (
        f"for {engine} {versions}{meant}, model {expected.model}, "
        f"{expected.kv_bytes_per_token:,} bytes of KV per token over all ranks"
    )


def no_rules(document: PolicyDocument, engine: str) -> Iterator[str]:
    """Notes on ranks, admission and hints, for an engine that evicts by recency and stores all it computes."""
    for name, rule in (("device", document.tiers.device), ("host", document.tiers.host)):
        if rule is None:
            continue
        if rule.policy in RULES:
            yield f"not expressed: the {RULES[rule.policy]} of the {name}; {engine} evicts there in order of last use"
        if rule.admission is Admission.MARGINAL or (name == "device" and rule.admission is not Admission.ALL):
            yield f"not expressed: admission '{rule.admission}' on the {name}; every block comes in"
    yield from no_write_budget(document)


def no_write_budget(document: PolicyDocument) -> Iterator[str]:
    """The note on the write budget, for an engine that knows none."""
    budget = document.budgets.host_write
    if budget is not None:
        rate = f"{budget.bytes_per_s / GB:,.4g} GB/s"
        yield f"not expressed: the write budget of {rate}; stores to the host are not limited"


def no_extras(document: PolicyDocument, engine: str) -> Iterator[str]:
    """Notes on the optional sections, for an engine that knows none of them."""
    if document.fingerprint.adapter_rule != "any":
        yield f"not expressed: adapter rule '{document.fingerprint.adapter_rule}'; {engine} caches KV of adapters too"
    if document.streaming is not None:
        yield f"not expressed: streaming of running requests; {engine} keeps their KV on the device"
    if document.hints is not None:
        yield "not expressed: hints of clients"


def eager_only(host: StoredTier, engine: str) -> Iterator[str]:
    """The note on store modes, for an engine that stores blocks as soon as they are computed."""
    if host.store_mode is not StoreMode.EAGER:
        yield f"not expressed: store mode '{host.store_mode}'; {engine} stores blocks as soon as they are computed"


def disk_without_folder(request: ExportRequest) -> Iterator[str]:
    """The note on a disk tier for which no folder was given."""
    if request.document.tiers.disk is not None and request.disk_dir is None:
        size = gib(request.document.budgets.disk_bytes)
        yield f"not expressed: the disk tier of {size}; give --disk-dir, the folder on the engine's machine"
