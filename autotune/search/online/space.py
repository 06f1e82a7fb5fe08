"""The loop's search space, read from YAML."""

from __future__ import annotations

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import validate
from autotune.online.settings import OnlineSettings
from autotune.search.knob import Knob, Knobs, Suggests
from autotune.search.online.setting import LoopSetting


class LoopSpace(Knobs):
    """All knobs; see :class:`~autotune.search.online.setting.LoopSetting` for what they mean."""

    grouped: ClassVar[bool] = False

    trees: Knob
    learning_rate: Knob
    min_samples_leaf: Knob
    l2: Knob
    near_quantile: Knob
    far_quantile: Knob
    pseudo_events: Knob
    device_age_frac: Knob
    ticks_per_horizon: Knob
    copy_factor: Knob
    store_mode: Knob
    refit_growth: Knob
    first_fit_requests: Knob
    form: Knob = Knob(value="hazard")

    def draw(self, trial: Suggests) -> LoopSetting:
        """The setting that a trial stands for."""
        return self.restored(self.draw_values(trial))

    def default(self, base: OnlineSettings) -> LoopSetting:
        """The fixed default."""
        return LoopSetting.of(base)

    def stored(self, setting: LoopSetting) -> dict[str, Any]:
        """The setting as JSON has it."""
        return asdict(setting) | {"store_mode": str(setting.store_mode), "form": str(setting.form)}

    def restored(self, values: dict[str, Any]) -> LoopSetting:
        """The setting that was stored."""
        return LoopSetting.restored(values)


def load_loop_space(path: Path | None = None) -> LoopSpace:
    """The space that the package ships, or one from a file.

    Raises:
        SearchError: the file cannot be read, or is not a valid space.
    """
    shipped = files("autotune_configs") / "search" / "online" / "default.yaml"
    text = shipped.read_text("utf-8") if path is None else read_text(path, SearchError)
    return validate(LoopSpace, parse_mapping(text, SearchError), SearchError, f"search space {path or 'of the loop'}")
