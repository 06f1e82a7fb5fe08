"""What the settings of a learned policy say about stores to the host, as documents and simulators take it."""

from __future__ import annotations

from autotune.core.learning_settings import LearningSettings
from autotune.core.policy import WriteBudget
from autotune.online.from_settings import online_settings


def write_budget(section: LearningSettings) -> WriteBudget | None:
    """What may be stored to the host; ``None`` = as much as comes."""
    return online_settings(section).write


def copy_factor_of(section: LearningSettings) -> float:
    """Factor on the host rank of a block that the device holds too, as it is in force under the write budget."""
    return online_settings(section).copy_factor_in_force
