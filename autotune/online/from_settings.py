"""From the section ``online`` of the settings to the settings of the loop."""

from __future__ import annotations

from autotune.core.learning_settings import LearningSettings, ReuseModelSettings
from autotune.costs.reuse import ReuseSettings
from autotune.online.settings import GuardSettings, OnlineSettings

_OURS = {"store_mode", "fit", "guard"}


def online_settings(section: LearningSettings, seed: int = 0, fit: ReuseModelSettings | None = None) -> OnlineSettings:
    """The loop's settings; the store mode is the engine's affair.

    Args:
        section: What the user gave.
        seed: Draws rows, and the chains that the shadows see.
        fit: How the model is fitted, if not as the section says.
    """
    return OnlineSettings(
        **section.model_dump(exclude=_OURS),
        fit=ReuseSettings(**(fit or section.fit).model_dump()),
        guard=GuardSettings(**section.guard.model_dump()),
        seed=seed,
    )
