"""The loop's search space, read from YAML."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import validate
from autotune.online.settings import OnlineSettings
from autotune.search.knob import Knobs, Suggests, with_knobs_of
from autotune.search.online.setting import LoopSetting


@with_knobs_of(LoopSetting)
class LoopSpace(Knobs):
    """One knob for each field of :class:`~autotune.search.online.setting.LoopSetting`, and named like it."""

    grouped: ClassVar[bool] = False

    def draw(self, trial: Suggests) -> LoopSetting:
        """The setting that a trial stands for."""
        return self.restored(self.draw_values(trial))

    def default(self, base: OnlineSettings) -> LoopSetting:
        """The fixed default."""
        return LoopSetting.of(base)

    def stored(self, setting: LoopSetting) -> dict[str, Any]:
        """The setting as JSON has it."""
        return setting.model_dump(mode="json")

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
