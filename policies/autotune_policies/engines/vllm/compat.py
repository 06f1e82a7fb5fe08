"""Which vLLM is installed, what of the plug-in works with it, and the differences between versions in one place.

:func:`check_signatures` compares every seam (:mod:`autotune_policies.engines.vllm.seams`) with the installed sources. A
feature whose seams all fit is on, also in a version that nobody has tried; one that does not fit is off, alone, and
vLLM's own behaviour stands in its place. The functions below it hide what differs, so that no other module asks for a
version. Source: vLLM 0.24.0, 0.28.0, 0.32.0 and 0.33.0, ``v1/kv_offload`` and the offloading connector.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

from autotune_policies.engines.vllm.early_config import early_config
from autotune_policies.engines.vllm.seams import NEEDS, SEAMS, Feature, Seam
from autotune_policies.engines.vllm.signatures import Finding, examine

_LOG = logging.getLogger("vllm.kv_autotune")

TESTED = ((0, 24), (0, 28), (0, 32), (0, 33))
"""Releases that the tests run against."""


@dataclass(frozen=True, slots=True, order=True)
class VllmVersion:
    """A version of vLLM; ordered by its release.

    Attributes:
        release: Major, minor and patch number; zeros where they cannot be read, as in a build from a working tree.
        text: As vLLM says it, with the name of the build.
    """

    release: tuple[int, int, int]
    text: str

    @classmethod
    def parse(cls, text: str) -> VllmVersion:
        """Read a version such as ``0.32.0+cpu`` or ``0.33.1rc2.dev5``; nothing is refused."""
        numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
        major, minor, patch = (int(number or 0) for number in numbers.groups()) if numbers else (0, 0, 0)
        return cls((major, minor, patch), text)

    @classmethod
    def installed(cls) -> VllmVersion:
        """The version of the sources that are imported; the metadata of the distribution may be of another build."""
        from vllm.version import __version__

        return cls.parse(str(__version__))

    @property
    def is_tested(self) -> bool:
        """Whether the tests run against this release."""
        return self.release[:2] in TESTED


@dataclass(frozen=True, slots=True)
class CompatReport:
    """What fits the installed vLLM.

    Attributes:
        version: The installed version.
        findings: One per seam, in the order of the table.
    """

    version: VllmVersion
    findings: tuple[Finding, ...]

    def misfits(self, feature: Feature) -> tuple[Finding, ...]:
        """The feature's own seams that do not fit."""
        return tuple(finding for finding in self.findings if finding.seam.feature is feature and not finding.fits)

    def is_on(self, feature: Feature) -> bool:
        """Whether the feature can be used: its seams fit, and so do those of what it builds on."""
        return not self.misfits(feature) and all(self.is_on(needed) for needed in NEEDS.get(feature, ()))

    @property
    def features(self) -> frozenset[Feature]:
        """The features that can be used."""
        return frozenset(feature for feature in Feature if self.is_on(feature))

    def reason(self, feature: Feature) -> str:
        """Why a feature is off, in one line; empty if it is on."""
        if self.is_on(feature):
            return ""
        lacking = [f"needs {needed}, which is off" for needed in NEEDS.get(feature, ()) if not self.is_on(needed)]
        return "; ".join([*map(str, self.misfits(feature)), *lacking])

    def message(self) -> str:
        """What a log should say at start: one line, and one more per feature that is off."""
        tested = "tested" if self.version.is_tested else f"not tested; tested are {_listed(TESTED)}"
        on = [feature for feature in Feature if self.is_on(feature)]
        lines = [f"vLLM {self.version.text} ({tested}): {', '.join(on) or 'nothing'} used"]
        lines += [
            f"{feature} is off, vLLM's own behaviour stands: {self.reason(feature)}"
            for feature in Feature
            if feature not in on
        ]
        return "\n".join(lines)


def _listed(releases: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in releases)


def examine_all(seams: Iterable[Seam] = SEAMS) -> CompatReport:
    """Compare seams with the installed vLLM, without remembering it."""
    return CompatReport(VllmVersion.installed(), tuple(map(examine, seams)))


@cache
def check_signatures() -> CompatReport:
    """What of the plug-in fits the installed vLLM; examined once per process, and said in its log."""
    report = examine_all()
    complete = report.version.is_tested and len(report.features) == len(Feature)
    _LOG.log(logging.INFO if complete else logging.WARNING, "kv-autotune: %s", report.message())
    return report


def is_usable(feature: Feature) -> bool:
    """Whether a feature fits the installed vLLM; where it does not, leave that part to vLLM."""
    return check_signatures().is_on(feature)


# Answers of lookup


@dataclass(frozen=True, slots=True)
class LookupAnswers:
    """What ``OffloadingManager.lookup`` says: ``LookupResult``, or up to 0.24 true, false and ``None``.

    Attributes:
        hit: The chunk can be loaded.
        miss: It is not on the host.
        pending: A copy to the host is in flight.
        retry: Nothing is known yet; ask again.
    """

    hit: Any
    miss: Any
    pending: Any
    retry: Any

    def is_hit(self, answer: Any) -> bool:
        """Whether the chunk is on the host, or will be when its copy has arrived."""
        return answer is self.hit or answer is self.pending


@cache
def lookup_answers() -> LookupAnswers:
    """The answers of the installed version; compare with ``is``."""
    from vllm.v1.kv_offload import base

    results = getattr(base, "LookupResult", None)
    if results is None:
        return LookupAnswers(hit=True, miss=False, pending=None, retry=None)
    return LookupAnswers(hit=results.HIT, miss=results.MISS, pending=results.HIT_PENDING, retry=results.RETRY)


# Specs


def pool_chunks(spec: Any) -> int:
    """Chunks that the pool of a ``CPUOffloadingSpec`` holds; ``num_blocks`` up to 0.29."""
    return int(spec.num_chunks if hasattr(spec, "num_chunks") else spec.num_blocks)


def chunk_bytes(spec: Any) -> int:
    """Bytes of one chunk over all ranks, with its padding; another name in 0.24."""
    return int(spec.kv_bytes_per_chunk if hasattr(spec, "kv_bytes_per_chunk") else spec.kv_bytes_per_offloaded_block)


def blocks_per_chunk(spec: Any) -> int:
    """Blocks of the device in one chunk; another name in 0.24."""
    return int(spec.blocks_per_chunk if hasattr(spec, "blocks_per_chunk") else spec.block_size_factor)


def offloading_config(spec: Any) -> Any:
    """``OffloadingConfig`` of a spec, or up to 0.25 what the plug-in reads of it, in the same shape."""
    return spec.config if hasattr(spec, "config") else early_config(spec)


# Managers


def capacity_chunks(manager: Any) -> int:
    """Chunks that a ``CPUOffloadingManager`` has room for; ``_num_blocks`` up to 0.29."""
    return int(manager._num_chunks if hasattr(manager, "_num_chunks") else manager._num_blocks)


def free_chunks(manager: Any) -> Callable[[], int]:
    """The method of a ``CPUOffloadingManager`` that counts its free places."""
    newer: Callable[[], int] | None = getattr(manager, "_get_num_free_chunks", None)
    return newer or manager._get_num_free_blocks


def manager_arguments(spec: Any, manager_class: type | None = None) -> dict[str, Any]:
    """What vLLM's own spec hands the constructor of ``CPUOffloadingManager``, as far as this version knows it.

    Args:
        spec: A ``CPUOffloadingSpec``.
        manager_class: Class whose constructor is asked for its parameters; vLLM's own by default.
    """
    if manager_class is None:
        from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

        manager_class = CPUOffloadingManager
    size = pool_chunks(spec)
    offered = {
        "num_chunks": size,
        "num_blocks": size,
        "cache_policy": spec.eviction_policy,
        "cache_policy_module_path": getattr(spec, "cache_policy_module_path", None),
        "enable_events": spec.kv_events_config.enable_kv_cache_events,
        "store_threshold": int(spec.extra_config.get("store_threshold", 0)),
        "max_tracker_size": int(spec.extra_config.get("max_tracker_size", 64_000)),
        "info": getattr(spec, "cpu_info", None),
    }
    known = inspect.signature(manager_class).parameters
    return {name: value for name, value in offered.items() if name in known}


# Contexts of requests


def key_position(req_context: Any, key: Any) -> int | None:
    """Token at which a chunk of the request ends; ``None`` where the version (up to 0.30) does not tell."""
    ask = getattr(req_context, "get_offload_key_position", None)
    return None if ask is None else ask(key)


def new_req_context(req_id: str) -> Any:
    """A context for stores that belong to no running request; that of a finished one must not be used again."""
    from vllm.v1.kv_offload.base import ReqContext

    return ReqContext(req_id=req_id)


# The connector's scheduler


def transfer_job(req_id: str, src_spec: Any, dst_spec: Any) -> Any:
    """A copy that the worker shall make; up to 0.24 its ends are one pair."""
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import TransferJob

    if "transfer_spec" in inspect.signature(TransferJob).parameters:
        return TransferJob(req_id=req_id, transfer_spec=(src_spec, dst_spec))
    return TransferJob(req_id=req_id, src_spec=src_spec, dst_spec=dst_spec)


def job_ends(job: Any) -> tuple[Any, Any]:
    """Source and destination of a ``TransferJob``."""
    pair = getattr(job, "transfer_spec", None)
    return (job.src_spec, job.dst_spec) if pair is None else (pair[0], pair[1])


def manager_locked(scheduler: Any) -> AbstractContextManager[None]:
    """Hold the manager outside of a step: in ``update_connector_output``, ``request_finished`` and the like.

    It cannot be entered twice, so never around a call of vLLM's scheduler, which enters it itself. Before 0.33 there is
    nothing to hold.
    """
    lock: Callable[[], AbstractContextManager[None]] | None = getattr(scheduler, "_manager_locked", None)
    return nullcontext() if lock is None else lock()
