"""Kind, unit and meaning of every signal."""

from __future__ import annotations

from autotune.core.signals.vocabulary import Kind, Signal, SignalSpec, Unit


def _counter(unit: Unit, meaning: str) -> SignalSpec:
    return SignalSpec(Kind.COUNTER, unit, meaning)


def _gauge(unit: Unit, meaning: str) -> SignalSpec:
    return SignalSpec(Kind.GAUGE, unit, meaning)


def _histogram(unit: Unit, meaning: str) -> SignalSpec:
    return SignalSpec(Kind.HISTOGRAM, unit, meaning)


_TRAFFIC = {
    Signal.PROMPT_TOKENS: _counter(Unit.TOKENS, "prompt tokens of requests whose prefill is done, cached ones too"),
    Signal.GENERATION_TOKENS: _counter(Unit.TOKENS, "generated tokens"),
    Signal.REQUESTS_FINISHED: _counter(Unit.REQUESTS, "requests that ended, for whatever reason"),
    Signal.REQUESTS_STOPPED: _counter(Unit.REQUESTS, "requests that ended with a stop token"),
    Signal.REQUESTS_LENGTH: _counter(Unit.REQUESTS, "requests that ended at their length limit"),
    Signal.REQUESTS_ABORTED: _counter(Unit.REQUESTS, "requests that the client gave up"),
    Signal.REQUESTS_ERRORED: _counter(Unit.REQUESTS, "requests that ended with an error"),
    Signal.REQUESTS_REJECTED: _counter(Unit.REQUESTS, "requests that were not admitted to the queue"),
    Signal.REQUESTS_RUNNING: _gauge(Unit.REQUESTS, "requests that are computed now"),
    Signal.REQUESTS_WAITING: _gauge(Unit.REQUESTS, "requests that wait for space or a slot"),
    Signal.REQUESTS_DEFERRED: _gauge(Unit.REQUESTS, "requests that wait for loads or other transient reasons"),
    Signal.PREEMPTIONS: _counter(Unit.COUNT, "times that a running request lost its blocks to another"),
    Signal.REQUEST_PROMPT_TOKENS: _histogram(Unit.TOKENS, "prompt tokens of finished requests"),
    Signal.REQUEST_GENERATION_TOKENS: _histogram(Unit.TOKENS, "generated tokens of finished requests"),
    Signal.REQUEST_COMPUTED_TOKENS: _histogram(Unit.TOKENS, "prompt tokens of finished requests that were computed"),
}
_PREFIX = {
    Signal.PREFIX_QUERY_TOKENS: _counter(Unit.TOKENS, "tokens looked up in the device's prefix cache"),
    Signal.PREFIX_HIT_TOKENS: _counter(Unit.TOKENS, "tokens found in the device's prefix cache"),
    Signal.EXTERNAL_QUERY_TOKENS: _counter(Unit.TOKENS, "tokens looked up behind the device, those it lacks"),
    Signal.EXTERNAL_HIT_TOKENS: _counter(Unit.TOKENS, "tokens found behind the device"),
    Signal.COMPUTED_TOKENS: _counter(Unit.TOKENS, "prompt tokens that were computed"),
    Signal.CACHED_DEVICE_TOKENS: _counter(Unit.TOKENS, "prompt tokens that the device had"),
    Signal.CACHED_EXTERNAL_TOKENS: _counter(Unit.TOKENS, "prompt tokens that came from behind the device"),
    Signal.CACHED_HOST_TOKENS: _counter(Unit.TOKENS, "prompt tokens that came from the host"),
    Signal.CACHED_DISK_TOKENS: _counter(Unit.TOKENS, "prompt tokens that came from disk"),
    Signal.DEVICE_HIT_FRAC: _gauge(Unit.FRACTION, "hit rate of the device, over a window of the engine's choice"),
    Signal.HOST_HIT_FRAC: _gauge(Unit.FRACTION, "hit rate of the host, over a window of the engine's choice"),
    Signal.DISK_HIT_FRAC: _gauge(Unit.FRACTION, "hit rate of the disk, over a window of the engine's choice"),
    Signal.OBJECT_HIT_FRAC: _gauge(Unit.FRACTION, "hit rate of the object store, over a window of the engine's choice"),
    Signal.BLOCKS_REUSED: _counter(Unit.BLOCKS, "blocks that a request found"),
    Signal.BLOCKS_MISSED: _counter(Unit.BLOCKS, "blocks that a request looked for and did not find"),
    Signal.BLOCKS_ALLOCATED: _counter(Unit.BLOCKS, "blocks that were taken for new content"),
    Signal.EVICTED_TOKENS: _counter(Unit.TOKENS, "tokens that left the device's cache to make room"),
    Signal.BLOCK_LIFETIME_S: _histogram(Unit.SECONDS, "life of a block from allocation to eviction, sampled"),
    Signal.BLOCK_IDLE_S: _histogram(Unit.SECONDS, "time without use before a block is evicted, sampled"),
    Signal.BLOCK_REUSE_GAP_S: _histogram(Unit.SECONDS, "time between two uses of a block that stayed, sampled"),
}
_TIME = {
    Signal.TTFT_S: _histogram(Unit.SECONDS, "time to the first token"),
    Signal.INTER_TOKEN_S: _histogram(Unit.SECONDS, "time between two tokens"),
    Signal.OUTPUT_TOKEN_S: _histogram(Unit.SECONDS, "time per output token, the mean of each request"),
    Signal.E2E_S: _histogram(Unit.SECONDS, "time from arrival to the last token"),
    Signal.QUEUE_S: _histogram(Unit.SECONDS, "time in the queue"),
    Signal.PREFILL_S: _histogram(Unit.SECONDS, "time from scheduling to the first token"),
    Signal.DECODE_S: _histogram(Unit.SECONDS, "time from the first token to the last"),
    Signal.INFERENCE_S: _histogram(Unit.SECONDS, "time from scheduling to the last token"),
    Signal.ITERATION_TOKENS: _histogram(Unit.TOKENS, "tokens of one step of the engine"),
    Signal.PROMPT_SECONDS: _counter(Unit.SECONDS, "time that prompts were computed for"),
    Signal.GENERATION_SECONDS: _counter(Unit.SECONDS, "time that tokens were generated for"),
    Signal.GENERATION_TOKENS_PER_S: _gauge(Unit.TOKENS_PER_S, "generated tokens per second, as the engine averages"),
}
_OFFLOAD = {
    Signal.STORE_BYTES: _counter(Unit.BYTES, "bytes device to host"),
    Signal.LOAD_BYTES: _counter(Unit.BYTES, "bytes host to device"),
    Signal.STORE_SECONDS: _counter(Unit.SECONDS, "time that stores were on the link"),
    Signal.LOAD_SECONDS: _counter(Unit.SECONDS, "time that loads were on the link"),
    Signal.STORE_OPERATIONS: _counter(Unit.COUNT, "stores"),
    Signal.LOAD_OPERATIONS: _counter(Unit.COUNT, "loads"),
    Signal.STORE_TOKENS: _counter(Unit.TOKENS, "tokens device to host"),
    Signal.LOAD_TOKENS: _counter(Unit.TOKENS, "tokens host to device"),
    Signal.STORE_BLOCKS: _counter(Unit.BLOCKS, "blocks device to host"),
    Signal.LOAD_BLOCKS: _counter(Unit.BLOCKS, "blocks host to device"),
    Signal.STORE_FAILURES: _counter(Unit.COUNT, "stores for which the host had no room"),
    Signal.STORE_OPERATION_S: _histogram(Unit.SECONDS, "time of one store"),
    Signal.LOAD_OPERATION_S: _histogram(Unit.SECONDS, "time of one load"),
    Signal.LOOKUP_DELAY_S: _histogram(Unit.SECONDS, "time that a lookup behind the device kept the scheduler"),
    Signal.DISK_WRITE_BYTES: _counter(Unit.BYTES, "bytes host to disk"),
    Signal.DISK_READ_BYTES: _counter(Unit.BYTES, "bytes disk to host"),
    Signal.DISK_WRITE_SECONDS: _counter(Unit.SECONDS, "time of writes to disk"),
    Signal.DISK_READ_SECONDS: _counter(Unit.SECONDS, "time of reads from disk"),
    Signal.DISK_WRITE_BLOCKS: _counter(Unit.BLOCKS, "blocks to disk"),
    Signal.DISK_READ_BLOCKS: _counter(Unit.BLOCKS, "blocks from disk"),
    Signal.HOST_LOOKUP_CHUNKS: _counter(Unit.CHUNKS, "chunks looked up on the host"),
    Signal.HOST_HIT_CHUNKS: _counter(Unit.CHUNKS, "chunks found on the host"),
    Signal.DISK_LOOKUP_CHUNKS: _counter(Unit.CHUNKS, "chunks looked up on disk"),
    Signal.DISK_HIT_CHUNKS: _counter(Unit.CHUNKS, "chunks found on disk"),
}
_ROOM = {
    Signal.DEVICE_KV_FRAC: _gauge(Unit.FRACTION, "share of the device's KV that running requests hold"),
    Signal.DEVICE_BLOCKS: _gauge(Unit.BLOCKS, "blocks of the device's KV, over all ranks that hold different content"),
    Signal.DEVICE_USED_BLOCKS: _gauge(Unit.BLOCKS, "blocks of the device's KV in use"),
    Signal.DEVICE_FREE_BLOCKS: _gauge(Unit.BLOCKS, "blocks of the device's KV that are free"),
    Signal.BLOCK_TOKENS: _gauge(Unit.TOKENS, "tokens of a block"),
    Signal.DEVICE_CAPACITY_TOKENS: _gauge(Unit.TOKENS, "tokens whose KV the device holds"),
    Signal.DEVICE_USED_TOKENS: _gauge(Unit.TOKENS, "tokens whose KV is in use on the device"),
    Signal.DEVICE_KV_BYTES: _gauge(Unit.BYTES, "bytes of the device's KV"),
    Signal.HOST_USED_TOKENS: _gauge(Unit.TOKENS, "tokens whose KV lies on the host"),
    Signal.HOST_CAPACITY_TOKENS: _gauge(Unit.TOKENS, "tokens whose KV the host can hold"),
    Signal.HOST_USED_BYTES: _gauge(Unit.BYTES, "bytes of KV on the host"),
    Signal.HOST_CAPACITY_BYTES: _gauge(Unit.BYTES, "bytes of KV that the host can hold"),
    Signal.HOST_KV_FRAC: _gauge(Unit.FRACTION, "share of the host's KV that is filled"),
    Signal.HOST_PINNED_FRAC: _gauge(Unit.FRACTION, "share of the host's KV that transfers hold, not how full it is"),
    Signal.DEVICE_RESIDENT_BLOCKS: _gauge(Unit.BLOCKS, "blocks on the device that a request can find, by KV events"),
    Signal.HOST_RESIDENT_BLOCKS: _gauge(Unit.BLOCKS, "blocks on the host that a request can find, by KV events"),
    Signal.PREFIX_CACHING: _gauge(Unit.COUNT, "1 where prefix caching is on, 0 where it is off"),
}
_PROCESS = {
    Signal.PROCESS_START_S: _gauge(Unit.SECONDS, "when the process began, in Unix time"),
    Signal.PROCESS_CPU_SECONDS: _counter(Unit.SECONDS, "processor time of the process that serves the page"),
    Signal.PROCESS_MEMORY_BYTES: _gauge(Unit.BYTES, "resident memory of the process that serves the page"),
    Signal.DEVICE_COUNT: _gauge(Unit.COUNT, "devices that serve, as far as the page or the host tells"),
}
_PLUGIN = {
    Signal.PLUGIN_LOOKUP_CHUNKS_HIT: _counter(Unit.CHUNKS, "chunks that requests asked the host for and that it had"),
    Signal.PLUGIN_LOOKUP_CHUNKS_MISSED: _counter(Unit.CHUNKS, "chunks that requests asked the host for in vain"),
    Signal.PLUGIN_LOADS_REFUSED: _counter(Unit.REQUESTS, "host hits not loaded because recomputing is cheaper"),
    Signal.PLUGIN_ADMISSIONS: _counter(Unit.CHUNKS, "chunks that came into the host"),
    Signal.PLUGIN_REFUSALS: _counter(Unit.CHUNKS, "chunks that were offered to the host and refused"),
    Signal.PLUGIN_EVICTIONS: _counter(Unit.CHUNKS, "chunks that left the host to make room"),
    Signal.PLUGIN_GHOST_HITS: _counter(Unit.CHUNKS, "chunks asked for after they were evicted or refused"),
    Signal.PLUGIN_LAZY_STORES: _counter(Unit.CHUNKS, "chunks stored when they neared the end of the device's queue"),
    Signal.PLUGIN_POLICY_RELOADS: _counter(Unit.COUNT, "policy files put in force"),
    Signal.PLUGIN_RELOAD_ERRORS: _counter(Unit.COUNT, "policy files refused"),
    Signal.PLUGIN_LEASES_EXPIRED: _counter(Unit.COUNT, "trial policies that gave way to their fallback"),
    Signal.PLUGIN_FALLBACKS: _counter(Unit.COUNT, "faults after which the engine went on with stock LRU"),
    Signal.PLUGIN_LOST_RECORDS: _counter(Unit.COUNT, "records of telemetry that were dropped"),
    Signal.PLUGIN_RESIDENT_CHUNKS: _gauge(Unit.CHUNKS, "chunks that the host holds"),
    Signal.PLUGIN_CAPACITY_CHUNKS: _gauge(Unit.CHUNKS, "chunks that the host can hold"),
    Signal.PLUGIN_GHOST_ENTRIES: _gauge(Unit.COUNT, "ghost entries"),
    Signal.PLUGIN_DECISION_S: _histogram(Unit.SECONDS, "time of one decision about an offer of chunks"),
}
_HOST = {
    Signal.MEMORY_LIMIT_BYTES: _gauge(Unit.BYTES, "memory limit of the control group"),
    Signal.MEMORY_USED_BYTES: _gauge(Unit.BYTES, "memory that the control group uses"),
    Signal.MEMORY_TOTAL_BYTES: _gauge(Unit.BYTES, "memory of the machine"),
    Signal.MEMORY_AVAILABLE_BYTES: _gauge(Unit.BYTES, "memory of the machine that can be had without swapping"),
    Signal.SHM_SIZE_BYTES: _gauge(Unit.BYTES, "size of /dev/shm"),
    Signal.SHM_USED_BYTES: _gauge(Unit.BYTES, "use of /dev/shm"),
    Signal.MEMLOCK_LIMIT_BYTES: _gauge(Unit.BYTES, "memory that a process may pin; infinite without a limit"),
    Signal.NUMA_NODES: _gauge(Unit.COUNT, "NUMA nodes with processors"),
    Signal.LINK_GENERATION: _gauge(Unit.COUNT, "PCIe generation of the slowest device link"),
    Signal.LINK_LANES: _gauge(Unit.COUNT, "PCIe lanes of the slowest device link"),
    Signal.LINK_BYTES_PER_S: _gauge(Unit.BYTES_PER_S, "nominal bandwidth of the slowest device link, one direction"),
}
SPECS: dict[Signal, SignalSpec] = {**_TRAFFIC, **_PREFIX, **_TIME, **_OFFLOAD, **_ROOM, **_PROCESS, **_PLUGIN, **_HOST}
