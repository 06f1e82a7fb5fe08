"""The policy ``online``: an engine that starts as LRU and learns while it runs."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.errors import ConfigError, SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.learning_settings import LearningSettings
from autotune.core.types import EngineSemantics, StoreMode
from autotune.sim.config import CacheConfig

ONLINE = "online"


def learning_engine(
    engine: CacheConfig, section: LearningSettings, store: StoreMode | None, device_policy: PolicySpec | None
) -> CacheConfig:
    """The engine with the store mode of the learned rule.

    Raises:
        ConfigError: the device was given a policy of its own.
        SimulationError: the engine works by rules under which nothing is learned.
    """
    if device_policy is not None:
        rule = "the policy online governs the device too"
        raise ConfigError(rule, got=device_policy.name, remedy="drop --device-policy")
    if engine.semantics is not EngineSemantics.CANONICAL:
        raise SimulationError(
            "the policy online is simulated by the canonical rules",
            got=engine.semantics,
            remedy="use --engine canonical",
        )
    return replace(engine, store_mode=store or section.store_mode)
