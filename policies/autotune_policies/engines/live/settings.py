"""Settings of the plug-in inside an engine: its own keys of the connector's configuration, checked once at start.

An engine hands its connector one mapping, in which its own keys and ours stand side by side. The engine's keys are
left alone. A key that looks like one of ours but is none is refused, because the engine ignores unknown keys silently
and a misspelt ``policy_file`` would mean stock LRU without a word.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.units import GB, MIB, MS_PER_S
from autotune.core.validation import Strict, nearest, validate
from autotune_policies.engines.live.targets import TelemetryTarget

POLICY_VARIABLE = "KV_AUTOTUNE_POLICY"
WHERE = "kv_connector_extra_config"

# Keys that vLLM 0.24 to 0.33 read from the same mapping.
# Source: v1/kv_offload/{base,factory,cpu/spec,tiering/spec,tiering/kvcr/manager}.py, and under
# distributed/kv_transfer/kv_connector/v1/: offloading/{config,scheduler}.py, simple_cpu_offload_connector.py,
# multi_connector.py.
VLLM_KEYS = frozenset(
    {
        "backpressure",
        "block_size",
        "blocks_per_chunk",
        "cache_policy_module_path",
        "canonical_layout",
        "connectors",
        "cpu_bytes_to_use",
        "cpu_bytes_to_use_per_rank",
        "disk_buffer_slots",
        "disk_capacity_bytes",
        "disk_path",
        "enable_telemetry",
        "eviction_policy",
        "kv_offload_backend",
        "lazy_offload",
        "max_tracker_size",
        "num_cpu_blocks",
        "offload_prompt_only",
        "secondary_tiers",
        "self_describing_kv_events",
        "spec_module_path",
        "spec_name",
        "store_threshold",
        "sync_load_budget_bytes",
        "tier_poll_interval_s",
        "use_page_cache",
    }
)
_NEAR_RATIO = 0.8
_Text = Annotated[str, Field(min_length=1, max_length=4096)]


class _Keys(Strict):
    """Our keys as they stand in the mapping."""

    policy_file: _Text | None = None
    telemetry: _Text | None = None
    # A segment is an eighth of it and must hold the longest request: 8 to 9 bytes per chunk.
    telemetry_max_bytes: int = Field(default=256 * MIB, ge=16 * MIB, le=2**50)
    decision_log: _Text | None = None
    decision_log_sample_frac: float = Field(default=0.01, gt=0.0, le=1.0)
    decision_log_max_bytes: int = Field(default=64 * MIB, ge=64 * 1024, le=2**50)
    simulated_link_gb_per_s: float | None = Field(default=None, gt=0.0, le=1e6)
    simulated_link_latency_ms: float | None = Field(default=None, ge=0.0, le=60_000.0)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the user set for the plug-in; everything has a default.

    Attributes:
        policy_file: Absolute path of the policy file, its links not followed; ``None`` = stock LRU.
        telemetry: Where records go; ``None`` = nowhere.
        telemetry_max_bytes: Most bytes that record files may take together.
        decision_log: Absolute path of the decision log; ``None`` = off.
        decision_log_sample_frac: Share of the keys whose decisions are logged, above 0 and up to 1.
        decision_log_max_bytes: Most bytes that the decision log may take, both generations together.
        simulated_link_bytes_per_s: Bandwidth that the CPU worker's copies are slowed down to; ``None`` = none.
        simulated_link_latency_s: Seconds that are added to each of its copies.
    """

    policy_file: Path | None = None
    telemetry: TelemetryTarget | None = None
    telemetry_max_bytes: int = 256 * MIB
    decision_log: Path | None = None
    decision_log_sample_frac: float = 0.01
    decision_log_max_bytes: int = 64 * MIB
    simulated_link_bytes_per_s: float | None = None
    simulated_link_latency_s: float = 0.0

    @classmethod
    def from_extra_config(
        cls, mapping: Mapping[str, object], environ: Mapping[str, str] = os.environ
    ) -> EngineSettings:
        """The settings in the mapping that an engine hands its connector; keys of the engine are ignored.

        Args:
            mapping: ``kv_connector_extra_config``; ``None`` as a value is the same as no key.
            environ: Environment; ``KV_AUTOTUNE_POLICY`` names the policy file where the mapping does not.

        Raises:
            ConfigError: a value is of the wrong type or out of range, or a key looks like one of ours but is none.
        """
        _refuse_near_misses(mapping)
        ours = {key: _plain(key, value) for key, value in mapping.items() if key in _OUR_KEYS and value is not None}
        keys = validate(_Keys, ours, ConfigError, WHERE)
        policy_file = keys.policy_file or environ.get(POLICY_VARIABLE) or None
        link_gb_per_s, latency_ms = keys.simulated_link_gb_per_s, keys.simulated_link_latency_ms
        return cls(
            policy_file=_absolute(policy_file),
            telemetry=TelemetryTarget.parse(keys.telemetry) if keys.telemetry else None,
            telemetry_max_bytes=keys.telemetry_max_bytes,
            decision_log=_absolute(keys.decision_log),
            decision_log_sample_frac=keys.decision_log_sample_frac,
            decision_log_max_bytes=keys.decision_log_max_bytes,
            simulated_link_bytes_per_s=None if link_gb_per_s is None else link_gb_per_s * GB,
            simulated_link_latency_s=0.0 if latency_ms is None else latency_ms / MS_PER_S,
        )

    def for_rank(self, data_parallel_rank: int) -> EngineSettings:
        """The settings of one data-parallel engine: ranks share the policy file, and each writes to its own targets.

        Args:
            data_parallel_rank: Number of the engine; 0 keeps the settings as they are.
        """
        if data_parallel_rank == 0:
            return self
        log = self.decision_log
        return replace(
            self,
            telemetry=self.telemetry and self.telemetry.for_rank(data_parallel_rank),
            decision_log=log and log.with_name(f"{log.name}.rank-{data_parallel_rank}"),
        )


_OUR_KEYS = frozenset(_Keys.model_fields)


def _refuse_near_misses(mapping: Mapping[str, object]) -> None:
    for key in mapping:
        if key not in _OUR_KEYS and key not in VLLM_KEYS and _looks_like_ours(key):
            raise ConfigError(f"{WHERE}.{key} is not a known name", got=repr(key), remedy=nearest(key, _OUR_KEYS))


def _looks_like_ours(key: str) -> bool:
    name = key.lower().replace("-", "_")
    begins = name.startswith(tuple(_OUR_KEYS))
    return begins or bool(difflib.get_close_matches(name, _OUR_KEYS, n=1, cutoff=_NEAR_RATIO))


def _plain(key: str, value: object) -> object:
    """A path given by a caller in Python as text; anything that no JSON can hold is refused here."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str | int | float):
        return value
    raise ConfigError(f"{WHERE}.{key} must be text or a number", got=type(value).__name__)


def _absolute(path: str | None) -> Path | None:
    # Not resolved: a link must be followed at every look, or its replacement would go unnoticed.
    return None if path is None else Path(path).absolute()
