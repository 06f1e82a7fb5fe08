"""Every place where the plug-in touches vLLM, as a table that is compared with the installed version at start.

vLLM calls these interfaces experimental, and they change from release to release. A seam says what the plug-in relies
on; :func:`autotune_policies.engines.vllm.compat.check_signatures` compares. A feature is used when all its seams fit.

What changed where (read in the sources of 0.24.0, 0.28.0, 0.32.0 and 0.33.0; the plug-in calls by position):

* ``CachePolicy.insert(key, block)`` → 0.30 ``(key, chunk)`` → 0.33 ``(key, chunk, req_context)``; ``touch(keys)`` →
  0.26 ``(keys, req_context)``; hooks ``on_store_miss`` and ``on_request_finished`` from 0.31, ``on_request_access``
  from 0.33. Up to 0.30 the connector calls ``manager.touch`` on every attempt to schedule and after every store, with
  all keys of the request; from 0.31 nobody does, and recency arrives at the end of a request.
* ``OffloadingManager.lookup`` answers ``bool | None`` up to 0.24, then ``LookupResult``; ``on_schedule_end()`` takes a
  context from 0.25. In 0.33 ``lock`` is a property that the connector enters and that no manager method may enter.
* ``CPUOffloadingManager(num_blocks, …)`` → 0.30 ``(num_chunks, …)``, and so for ``_num_…``, ``_get_num_free_…`` and the
  spec's ``num_…``; ``cache_policy_module_path`` from 0.27, ``info`` from 0.33.
* ``OffloadingSpec(vllm_config, kv_cache_config)`` → 0.26 ``(config)``; ``get_handlers`` → 0.25 ``get_worker``;
  ``submit_load(…, expedited)`` from 0.33.
* ``ReqContext`` has a state per request from 0.25, positions of keys from 0.31.
* ``TransferJob(req_id, transfer_spec)`` → 0.25 ``(req_id, src_spec, dst_spec)`` → 0.33 ``(…, sync)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Feature(StrEnum):
    """Parts of the plug-in that are switched on or off as a whole."""

    POLICY = "policy"
    MANAGER = "manager"
    TIERING = "tiering"
    METRICS = "metrics"
    WORKER = "worker"
    CONNECTOR = "connector"
    LAZY_STORE = "lazy store"
    DEVICE_KEEP = "device keep"


NEEDS: dict[Feature, tuple[Feature, ...]] = {
    Feature.MANAGER: (Feature.POLICY,),
    Feature.TIERING: (Feature.MANAGER,),
    Feature.LAZY_STORE: (Feature.CONNECTOR, Feature.MANAGER),
    Feature.DEVICE_KEEP: (Feature.CONNECTOR,),
}
"""Features that another one builds on; where they are off, it is off."""


class Use(StrEnum):
    """How a seam is used, which decides what fits."""

    CALLS = "calls"  # the parameters must begin with a known form, and the others have defaults
    OVERRIDES = "overrides"  # vLLM calls ours: the parameters must be a known form, none more
    READS = "reads"  # an attribute of the class or of its instances
    SUBCLASSES = "subclasses"  # the abstract methods must be among the known ones


@dataclass(frozen=True, slots=True)
class Seam:
    """One thing that the plug-in relies on.

    Attributes:
        feature: What is off where it does not fit.
        use: How it is used.
        where: ``module:Name`` or ``module:Name.member``; alternatives by version stand behind ``|``.
        forms: Known parameter lists without ``self``, names between blanks; for ``SUBCLASSES`` the abstract methods.
        optional: Whether a version may lack it.
    """

    feature: Feature
    use: Use
    where: str
    forms: tuple[str, ...] = ()
    optional: bool = False


_OFFLOAD = "vllm.v1.kv_offload"
_CONNECTOR = "vllm.distributed.kv_transfer.kv_connector.v1"
_PARTS = f"{_CONNECTOR}.offloading"
_CORE = "vllm.v1.core"


def _calls(feature: Feature, where: str, *forms: str, optional: bool = False) -> Seam:
    return Seam(feature, Use.CALLS, where, forms, optional)


def _overrides(feature: Feature, owner: str, optional: bool = False, **methods: str) -> tuple[Seam, ...]:
    """One seam per method; forms stand between bars."""
    return tuple(
        Seam(feature, Use.OVERRIDES, f"{owner}.{name}", tuple(form.strip() for form in forms.split("|")), optional)
        for name, forms in methods.items()
    )


def _reads(feature: Feature, owner: str, names: str, optional: bool = False) -> tuple[Seam, ...]:
    return tuple(Seam(feature, Use.READS, f"{owner}.{name}", optional=optional) for name in names.split())


_POLICY = f"{_OFFLOAD}.cpu.policies.base:CachePolicy"
_CPU_MANAGER = f"{_OFFLOAD}.cpu.manager:CPUOffloadingManager"
_CPU_SPEC = f"{_OFFLOAD}.cpu.spec:CPUOffloadingSpec"
_PRIMARY = f"{_OFFLOAD}.tiering.manager:CPUPrimaryTierOffloadingManager"
_WORKER = f"{_OFFLOAD}.base:OffloadingWorker"
_SCHEDULER = f"{_PARTS}.scheduler:OffloadingConnectorScheduler"

_POLICY_SEAMS = (
    Seam(Feature.POLICY, Use.SUBCLASSES, _POLICY, ("__init__ clear evict get insert remove touch",)),
    *_overrides(
        Feature.POLICY,
        _POLICY,
        __init__="cache_capacity",
        get="key",
        insert="key block | key chunk | key chunk req_context",
        remove="key",
        touch="keys | keys req_context",
        evict="n protected",
        clear="",
        mark_evictable="key",
        mark_non_evictable="key",
    ),
    *_overrides(
        Feature.POLICY,
        _POLICY,
        optional=True,
        on_store_miss="keys req_context",
        on_request_access="keys req_context",
        on_request_finished="key_groups insertion_only_keys reused_keys req_context",
    ),
    *_reads(Feature.POLICY, f"{_OFFLOAD}.cpu.policies.base:ChunkStatus|BlockStatus", "ref_cnt is_ready"),
)

_MANAGER_SEAMS = (
    _calls(Feature.MANAGER, f"{_CPU_MANAGER}.__init__", "num_chunks cache_policy", "num_blocks cache_policy"),
    *_overrides(
        Feature.MANAGER,
        _CPU_MANAGER,
        lookup="key req_context",
        prepare_load="keys req_context",
        complete_load="keys req_context",
        prepare_store="keys req_context",
        complete_store="keys req_context success",
        touch="keys req_context",
        on_new_request="req_context",
        on_request_finished="req_context",
        on_schedule_end=" | context",
        reset_cache="",
        get_stats="",
        take_events="",
        shutdown="",
    ),
    *_reads(
        Feature.MANAGER,
        _CPU_MANAGER,
        "_policy _num_chunks|_num_blocks _get_num_free_chunks|_get_num_free_blocks events counts store_threshold",
    ),
    *_reads(Feature.MANAGER, f"{_OFFLOAD}.base:LookupResult", "HIT HIT_PENDING MISS RETRY", optional=True),
    _calls(Feature.MANAGER, f"{_OFFLOAD}.base:PrepareStoreOutput", "keys_to_store store_spec evicted_keys"),
    _calls(Feature.MANAGER, f"{_OFFLOAD}.base:ReqContext", "req_id kv_transfer_params"),
    _calls(Feature.MANAGER, f"{_OFFLOAD}.base:ReqContext.get_offload_key_position", "key", optional=True),
    _calls(Feature.MANAGER, f"{_OFFLOAD}.base:get_offload_group_idx", "key"),
    *_overrides(Feature.MANAGER, _CPU_SPEC, get_manager="", build_metric_definitions="extra_config"),
    *_overrides(Feature.MANAGER, _CPU_SPEC, __init__="config | vllm_config kv_cache_config"),
    *_reads(
        Feature.MANAGER,
        _CPU_SPEC,
        "extra_config kv_events_config eviction_policy _manager num_chunks|num_blocks"
        " kv_bytes_per_chunk|kv_bytes_per_offloaded_block blocks_per_chunk|block_size_factor"
        " tokens_per_block|gpu_block_size",
    ),
)

_TIERING_SEAMS = (
    _calls(
        Feature.TIERING,
        f"{_PRIMARY}.__init__",
        "num_chunks mmap_region cache_policy",
        "num_blocks mmap_region cache_policy",
    ),
    *_reads(Feature.TIERING, _PRIMARY, "prepare_read prepare_write complete_read complete_write"),
    *_reads(Feature.TIERING, f"{_OFFLOAD}.tiering.manager:TieringOffloadingManager", "primary_tier secondary_tiers"),
    *_overrides(Feature.TIERING, f"{_OFFLOAD}.tiering.spec:TieringOffloadingSpec", get_manager=""),
)

_METRICS_SEAMS = tuple(
    _calls(Feature.METRICS, f"{_PARTS}.metrics:OffloadingConnectorStats.{name}", form)
    for name, form in (
        ("increase_counter", "counter_name counter_increase_value labelvalues"),
        ("set_gauge", "gauge_name gauge_value labelvalues"),
        ("observe_histogram", "histogram_name histogram_value labelvalues"),
    )
) + tuple(
    _calls(Feature.METRICS, f"{_OFFLOAD}.base:Offloading{kind}Metadata", "documentation labelnames")
    for kind in ("Counter", "Gauge", "Histogram")
)

_WORKER_SEAMS = (
    Seam(Feature.WORKER, Use.SUBCLASSES, _WORKER, ("get_finished submit_load submit_store wait",)),
    *_overrides(
        Feature.WORKER,
        _WORKER,
        submit_store="job_id src_spec dst_spec",
        submit_load="job_id src_spec dst_spec | job_id src_spec dst_spec expedited",
        get_finished="",
        wait="job_ids",
        shutdown="",
    ),
    *_overrides(Feature.WORKER, _CPU_SPEC, get_worker="kv_caches"),
    _calls(Feature.WORKER, f"{_OFFLOAD}.base:TransferResult", "job_id success transfer_size transfer_time"),
    *_reads(Feature.WORKER, f"{_OFFLOAD}.base:CanonicalKVCaches", "tensors group_data_refs"),
    *_reads(Feature.WORKER, f"{_OFFLOAD}.base:CanonicalKVCacheTensor", "tensor page_size_bytes"),
    *_reads(Feature.WORKER, f"{_OFFLOAD}.base:CanonicalKVCacheRef", "tensor_idx page_size_bytes"),
    *_reads(Feature.WORKER, f"{_OFFLOAD}.base:GPULoadStoreSpec", "block_ids group_sizes block_indices"),
)

_CONNECTOR_SEAMS = (
    *_overrides(
        Feature.CONNECTOR,
        f"{_CONNECTOR}.offloading_connector:OffloadingConnector",
        __init__="vllm_config role kv_cache_config",
        on_new_request="request",
        get_num_new_matched_tokens="request num_computed_tokens",
        update_state_after_alloc="request blocks num_external_tokens",
        build_connector_meta="scheduler_output",
        update_connector_output="connector_output",
        request_finished="request block_ids",
        request_finished_all_groups="request block_ids",
        bind_gpu_block_pool="gpu_block_pool",
        has_pending_push_work="",
        reset_cache="",
        shutdown="",
    ),
    *_reads(Feature.CONNECTOR, f"{_CONNECTOR}.offloading_connector:OffloadingConnector", "connector_scheduler"),
    *_reads(Feature.CONNECTOR, _SCHEDULER, "manager config _req_status _jobs"),
    *_reads(
        Feature.CONNECTOR,
        f"{_PARTS}.scheduler:SchedulerOffloadConfig",
        "kv_group_configs num_workers offload_prompt_only blocks_per_chunk|block_size_factor",
    ),
    *_reads(
        Feature.CONNECTOR,
        f"{_PARTS}.scheduler:GroupOffloadConfig",
        "group_idx tokens_per_block|gpu_block_size tokens_per_chunk|offloaded_block_size"
        " hashes_per_chunk|hash_block_size_factor sliding_window_size_in_chunks|sliding_window_size_in_blocks",
    ),
    *_reads(Feature.CONNECTOR, f"{_PARTS}.common:OffloadingWorkerMetadata", "completed_jobs transfer_stats"),
    *_reads(Feature.CONNECTOR, f"{_PARTS}.common:TransferStats", "load store"),
    *_reads(Feature.CONNECTOR, f"{_PARTS}.common:DirectionalTransferStats", "bytes time sizes"),
)

_REQUEST = f"{_PARTS}.scheduler:RequestOffloadState"
_GROUP_STATE = f"{_PARTS}.scheduler:RequestGroupState"
_QUEUE = f"{_CORE}.kv_cache_utils:FreeKVCacheBlockQueue"
_POOL = f"{_CORE}.block_pool:BlockPool"
_BLOCK = f"{_CORE}.kv_cache_utils:KVCacheBlock"
_IDLE_BLOCKS = (
    (_QUEUE, "fake_free_list_head fake_free_list_tail"),
    (_POOL, "blocks free_block_queue num_gpu_blocks"),
    (_BLOCK, "block_id block_hash next_free_block"),
)

_LAZY_SEAMS = (
    *_reads(Feature.LAZY_STORE, _SCHEDULER, "_jobs _block_id_to_pending_jobs _current_batch_jobs_to_flush"),
    _calls(Feature.LAZY_STORE, f"{_SCHEDULER}._generate_job_id", ""),
    *_reads(Feature.LAZY_STORE, _REQUEST, "req group_states max_offload_tokens"),
    *_reads(Feature.LAZY_STORE, _GROUP_STATE, "block_ids next_stored_chunk_idx|next_stored_block_idx"),
    *_reads(Feature.LAZY_STORE, f"{_PARTS}.common:OffloadingConnectorMetadata", "load_jobs store_jobs jobs_to_flush"),
    _calls(Feature.LAZY_STORE, f"{_PARTS}.common:TransferJob", "req_id transfer_spec", "req_id src_spec dst_spec"),
    _calls(Feature.LAZY_STORE, f"{_OFFLOAD}.base:GPULoadStoreSpec.__init__", "block_ids group_sizes block_indices"),
    *(seam for owner, names in _IDLE_BLOCKS for seam in _reads(Feature.LAZY_STORE, owner, names)),
)

_DEVICE_SEAMS = (
    _calls(Feature.DEVICE_KEEP, f"{_QUEUE}.popleft_n", "n"),
    _calls(Feature.DEVICE_KEEP, f"{_QUEUE}.remove", "block"),
    _calls(Feature.DEVICE_KEEP, f"{_QUEUE}.append", "block"),
    _calls(Feature.DEVICE_KEEP, f"{_QUEUE}.prepend_n", "blocks"),
    *(seam for owner, names in _IDLE_BLOCKS for seam in _reads(Feature.DEVICE_KEEP, owner, names)),
    *_reads(Feature.DEVICE_KEEP, _BLOCK, "ref_cnt"),
)

SEAMS: tuple[Seam, ...] = (
    *_POLICY_SEAMS,
    *_MANAGER_SEAMS,
    *_TIERING_SEAMS,
    *_METRICS_SEAMS,
    *_WORKER_SEAMS,
    *_CONNECTOR_SEAMS,
    *_LAZY_SEAMS,
    *_DEVICE_SEAMS,
)
