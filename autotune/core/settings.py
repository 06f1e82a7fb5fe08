"""Every setting of the tuner and of the sidecar, with its default, its range and its meaning.

``autotune_configs/default.yaml`` is this model written as commented YAML. A settings file names only what it changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.learning_settings import LearningSettings, ReuseModelSettings
from autotune.core.sidecar_settings import SidecarSettings
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.types import EngineSemantics, StoreMode, Timing
from autotune.core.validation import Strict, validate

OpenFrac = Annotated[float, Field(gt=0.0, lt=1.0)]


class TraceSettings(Strict):
    """How traces are read."""

    on_error: Literal["fail", "skip"] = Field(
        default="fail",
        description="What a malformed row does: fail (name file, line and fault) or skip (count it and go on).",
    )


class SimulationSettings(Strict):
    """How the caches are simulated."""

    timing: Timing = Field(
        default=Timing.INSTANT,
        description="When a request's blocks become idle: instant (at its arrival) or service (when it finishes; until "
        "then they are pinned).",
    )
    full_blocks: bool = Field(
        default=False,
        description="Whether partial blocks at the end of a prompt are left out, as engines do; false counts them as "
        "the trace has them.",
    )
    engine: EngineSemantics = Field(
        default=EngineSemantics.CANONICAL,
        description="By whose rules the host tier works: canonical (blocks come in when their request ends), or "
        "vllm-0.32 (as vLLM's offloading offers, stores and evicts chunks; eager stores, full blocks). 'vllm' means "
        "the newest version known here.",
    )
    store_mode: StoreMode = Field(
        default=StoreMode.EAGER,
        description="When blocks are copied to the host: eager (when a request ends), lazy (when the device evicts) or "
        "exclusive (like lazy, and a loaded block leaves the host).",
    )
    device_policy: str = Field(
        default="lru",
        min_length=1,
        max_length=100,
        description="Policy of the device where there is a host tier for the tuned policy; lru is what engines have.",
    )
    measure_from_frac: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Share of the trace's time, from its start, that only warms the caches up and is not counted.",
    )
    itl_ms: float = Field(
        default=8.0, gt=0.0, le=60_000.0, description="Milliseconds per output token, for service timing."
    )


class QueueSettings(Strict):
    """How waiting times are modelled on top of the caches."""

    servers: int = Field(
        default=1, ge=1, le=100_000, description="Prefill servers that share one queue and the whole cache."
    )
    time_scale: float = Field(
        default=1.0,
        gt=0.0,
        le=1e6,
        description="Factor on the times between arrivals; above 1 thins the load out. Recorded in every result.",
    )
    prefetch_depth: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="How many waiting requests ahead of the one in service may start their loads; 0 = none.",
    )
    overlap_beta: float = Field(
        default=1.0,
        ge=0.0,
        le=1.0,
        description="β: share of the shorter of compute and transfer that is hidden behind the longer; 1 = all of it.",
    )
    max_load_frac: float = Field(
        default=0.9,
        gt=0.0,
        lt=1.0,
        description="Highest load (busy share of the servers) under LRU at which waiting times are reported at all.",
    )
    ttft_goal_ms: float = Field(
        default=2000.0,
        gt=0.0,
        le=3_600_000.0,
        description="Milliseconds to the first token that count as good service.",
    )


class SearchSettings(Strict):
    """How the settings of the policy are searched."""

    trials: int = Field(
        default=100, ge=1, le=1_000_000, description="Settings that are tried; the first is always LRU's own."
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed of the search; the same seed, the same result.")
    sampler: Literal["tpe", "random", "cmaes", "nsga2"] = Field(
        default="tpe", description="How the next setting is chosen: tpe, random, cmaes or nsga2."
    )
    objective: str = Field(
        default="net_seconds",
        min_length=1,
        max_length=100,
        description="What is maximised or minimised, by the name of a registered objective.",
    )
    train_frac: OpenFrac = Field(
        default=0.6,
        description="Share of the trace's time, from its start, that is tuned on; the rest judges the result.",
    )
    workers: int = Field(default=1, ge=1, le=1024, description="Processes that try settings side by side.")
    random_search: bool = Field(
        default=True, description="Whether random search with the same number of trials is reported beside the sampler."
    )
    learned: bool = Field(
        default=True,
        description="Whether a learned rule is fitted on the past too, and published where it does better.",
    )
    fit: ReuseModelSettings = Field(
        default=ReuseModelSettings(),
        description="How that rule is fitted, once and at leisure; what else it needs stands in section online.",
    )


class ValidationSettings(Strict):
    """How a result is judged on time that was not tuned on."""

    bootstrap_windows: int = Field(
        default=30,
        ge=2,
        le=10_000,
        description="Windows of equally many requests, in order of time, that the judged part is cut into.",
    )
    bootstrap_samples: int = Field(
        default=2000, ge=100, le=1_000_000, description="Times that the windows are drawn again to find the bounds."
    )
    confidence: OpenFrac = Field(default=0.9, description="Probability that the bounds cover the gain.")


class Settings(Strict):
    """All settings of the tuner and of the sidecar."""

    trace: TraceSettings = Field(default=TraceSettings(), description="Reading traces.")
    simulation: SimulationSettings = Field(default=SimulationSettings(), description="Simulating the caches.")
    queue: QueueSettings = Field(default=QueueSettings(), description="Modelling waiting times (TTFT).")
    search: SearchSettings = Field(default=SearchSettings(), description="Searching the policy's settings.")
    validation: ValidationSettings = Field(default=ValidationSettings(), description="Judging the result.")
    online: LearningSettings = Field(
        default=LearningSettings(), description="Learning which blocks come back, and when it is obeyed."
    )
    sidecar: SidecarSettings = Field(default=SidecarSettings(), description="The sidecar beside a running engine.")


def parse_settings(text: str, what: str = "settings") -> Settings:
    """Settings from YAML text; what the text does not name keeps its default.

    Raises:
        ConfigError: an unknown name (with the nearest valid one), a wrong type or a value out of range.
    """
    return validate(Settings, parse_mapping(text, ConfigError), ConfigError, what)


def load_settings(path: Path | None = None) -> Settings:
    """Settings from a file, or the defaults.

    Raises:
        ConfigError: the file cannot be read or is not valid.
    """
    if path is None:
        return Settings()
    return parse_settings(read_text(path, ConfigError), str(path))
