"""The signals that the project knows, whatever an engine calls them.

An adapter maps an engine's series to these names; everything behind it speaks of nothing else. Values are in the units
of :class:`Unit`: seconds, bytes, tokens, and shares of one, never milliseconds or percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a signal behaves: a ``COUNTER`` only grows within an epoch, a ``GAUGE`` is a momentary value."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What a signal counts."""

    BLOCKS = "blocks"
    BYTES = "bytes"
    CHUNKS = "chunks"
    COUNT = "count"
    FRACTION = "fraction"
    REQUESTS = "requests"
    SECONDS = "seconds"
    TOKENS = "tokens"
    TOKENS_PER_S = "tokens per second"
    BYTES_PER_S = "bytes per second"


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """What a signal means.

    Attributes:
        kind: How it behaves.
        unit: What it counts; of a histogram, the unit of what is observed.
        meaning: One sentence without its full stop.
    """

    kind: Kind
    unit: Unit
    meaning: str


class Signal(StrEnum):
    """Canonical names; ``signal.spec`` says kind, unit and meaning."""

    # Traffic
    PROMPT_TOKENS = "prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    REQUESTS_FINISHED = "requests_finished"
    REQUESTS_STOPPED = "requests_stopped"
    REQUESTS_LENGTH = "requests_length"
    REQUESTS_ABORTED = "requests_aborted"
    REQUESTS_ERRORED = "requests_errored"
    REQUESTS_REJECTED = "requests_rejected"
    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    REQUESTS_DEFERRED = "requests_deferred"
    PREEMPTIONS = "preemptions"
    REQUEST_PROMPT_TOKENS = "request_prompt_tokens"
    REQUEST_GENERATION_TOKENS = "request_generation_tokens"
    REQUEST_COMPUTED_TOKENS = "request_computed_tokens"

    # Prefix cache of the device, and of what lies behind it
    PREFIX_QUERY_TOKENS = "prefix_query_tokens"
    PREFIX_HIT_TOKENS = "prefix_hit_tokens"
    EXTERNAL_QUERY_TOKENS = "external_query_tokens"
    EXTERNAL_HIT_TOKENS = "external_hit_tokens"
    COMPUTED_TOKENS = "computed_tokens"
    CACHED_DEVICE_TOKENS = "cached_device_tokens"
    CACHED_EXTERNAL_TOKENS = "cached_external_tokens"
    CACHED_HOST_TOKENS = "cached_host_tokens"
    CACHED_DISK_TOKENS = "cached_disk_tokens"
    DEVICE_HIT_FRAC = "device_hit_frac"
    HOST_HIT_FRAC = "host_hit_frac"
    DISK_HIT_FRAC = "disk_hit_frac"
    OBJECT_HIT_FRAC = "object_hit_frac"
    BLOCKS_REUSED = "blocks_reused"
    BLOCKS_MISSED = "blocks_missed"
    BLOCKS_ALLOCATED = "blocks_allocated"
    EVICTED_TOKENS = "evicted_tokens"
    BLOCK_LIFETIME_S = "block_lifetime_s"
    BLOCK_IDLE_S = "block_idle_s"
    BLOCK_REUSE_GAP_S = "block_reuse_gap_s"

    # Time
    TTFT_S = "ttft_s"
    INTER_TOKEN_S = "inter_token_s"
    OUTPUT_TOKEN_S = "output_token_s"
    E2E_S = "e2e_s"
    QUEUE_S = "queue_s"
    PREFILL_S = "prefill_s"
    DECODE_S = "decode_s"
    INFERENCE_S = "inference_s"
    ITERATION_TOKENS = "iteration_tokens"
    PROMPT_SECONDS = "prompt_seconds"
    GENERATION_SECONDS = "generation_seconds"
    GENERATION_TOKENS_PER_S = "generation_tokens_per_s"

    # Offload: device to host (store), host to device (load), and what lies below the host
    STORE_BYTES = "store_bytes"
    LOAD_BYTES = "load_bytes"
    STORE_SECONDS = "store_seconds"
    LOAD_SECONDS = "load_seconds"
    STORE_OPERATIONS = "store_operations"
    LOAD_OPERATIONS = "load_operations"
    STORE_TOKENS = "store_tokens"
    LOAD_TOKENS = "load_tokens"
    STORE_BLOCKS = "store_blocks"
    LOAD_BLOCKS = "load_blocks"
    STORE_FAILURES = "store_failures"
    STORE_OPERATION_S = "store_operation_s"
    LOAD_OPERATION_S = "load_operation_s"
    LOOKUP_DELAY_S = "lookup_delay_s"
    DISK_WRITE_BYTES = "disk_write_bytes"
    DISK_READ_BYTES = "disk_read_bytes"
    DISK_WRITE_SECONDS = "disk_write_seconds"
    DISK_READ_SECONDS = "disk_read_seconds"
    DISK_WRITE_BLOCKS = "disk_write_blocks"
    DISK_READ_BLOCKS = "disk_read_blocks"
    HOST_LOOKUP_CHUNKS = "host_lookup_chunks"
    HOST_HIT_CHUNKS = "host_hit_chunks"
    DISK_LOOKUP_CHUNKS = "disk_lookup_chunks"
    DISK_HIT_CHUNKS = "disk_hit_chunks"

    # Room
    DEVICE_KV_FRAC = "device_kv_frac"
    DEVICE_BLOCKS = "device_blocks"
    DEVICE_USED_BLOCKS = "device_used_blocks"
    DEVICE_FREE_BLOCKS = "device_free_blocks"
    BLOCK_TOKENS = "block_tokens"
    DEVICE_CAPACITY_TOKENS = "device_capacity_tokens"
    DEVICE_USED_TOKENS = "device_used_tokens"
    DEVICE_KV_BYTES = "device_kv_bytes"
    HOST_USED_TOKENS = "host_used_tokens"
    HOST_CAPACITY_TOKENS = "host_capacity_tokens"
    HOST_USED_BYTES = "host_used_bytes"
    HOST_CAPACITY_BYTES = "host_capacity_bytes"
    HOST_KV_FRAC = "host_kv_frac"
    HOST_PINNED_FRAC = "host_pinned_frac"
    PREFIX_CACHING = "prefix_caching"
    DEVICE_RESIDENT_BLOCKS = "device_resident_blocks"
    HOST_RESIDENT_BLOCKS = "host_resident_blocks"

    # Processes
    PROCESS_START_S = "process_start_s"
    PROCESS_CPU_SECONDS = "process_cpu_seconds"
    PROCESS_MEMORY_BYTES = "process_memory_bytes"
    DEVICE_COUNT = "device_count"

    # kv-autotune's plug-in
    PLUGIN_LOOKUP_CHUNKS_HIT = "plugin_lookup_chunks_hit"
    PLUGIN_LOOKUP_CHUNKS_MISSED = "plugin_lookup_chunks_missed"
    PLUGIN_LOADS_REFUSED = "plugin_loads_refused"
    PLUGIN_ADMISSIONS = "plugin_admissions"
    PLUGIN_REFUSALS = "plugin_refusals"
    PLUGIN_EVICTIONS = "plugin_evictions"
    PLUGIN_GHOST_HITS = "plugin_ghost_hits"
    PLUGIN_LAZY_STORES = "plugin_lazy_stores"
    PLUGIN_POLICY_RELOADS = "plugin_policy_reloads"
    PLUGIN_RELOAD_ERRORS = "plugin_reload_errors"
    PLUGIN_LEASES_EXPIRED = "plugin_leases_expired"
    PLUGIN_FALLBACKS = "plugin_fallbacks"
    PLUGIN_LOST_RECORDS = "plugin_lost_records"
    PLUGIN_RESIDENT_CHUNKS = "plugin_resident_chunks"
    PLUGIN_CAPACITY_CHUNKS = "plugin_capacity_chunks"
    PLUGIN_GHOST_ENTRIES = "plugin_ghost_entries"
    PLUGIN_DECISION_S = "plugin_decision_s"

    # Facts of the host that the sidecar runs on
    MEMORY_LIMIT_BYTES = "memory_limit_bytes"
    MEMORY_USED_BYTES = "memory_used_bytes"
    MEMORY_TOTAL_BYTES = "memory_total_bytes"
    MEMORY_AVAILABLE_BYTES = "memory_available_bytes"
    SHM_SIZE_BYTES = "shm_size_bytes"
    SHM_USED_BYTES = "shm_used_bytes"
    MEMLOCK_LIMIT_BYTES = "memlock_limit_bytes"
    NUMA_NODES = "numa_nodes"
    LINK_GENERATION = "link_generation"
    LINK_LANES = "link_lanes"
    LINK_BYTES_PER_S = "link_bytes_per_s"

    @property
    def spec(self) -> SignalSpec:
        """Kind, unit and meaning."""
        from autotune.core.signals.specs import SPECS

        return SPECS[self]
