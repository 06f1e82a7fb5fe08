"""The search space: which knobs move, and how far; read from YAML."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.types import Admission
from autotune.core.validation import validate
from autotune.search.knob import Knob, Knobs, Suggests
from autotune.search.setting import Setting

__all__ = ["Knob", "SearchSpace", "load_space", "space_names"]


class SearchSpace(Knobs):
    """All knobs; see :class:`~autotune.search.setting.Setting` for what they mean."""

    lambda_recency: Knob
    tau_turnovers: Knob
    half_life_turnovers: Knob
    cost_weight: Knob
    ghost_ratio: Knob
    admission: Knob
    min_load_tokens: Knob
    resident_frac: Knob
    prefetch_depth: Knob
    chunk_blocks: Knob

    def draw(self, trial: Suggests) -> Setting:
        """The setting that a trial stands for."""
        values = self.draw_values(trial)
        return Setting(admission=Admission(values.pop("admission")), **values)


def space_names() -> tuple[str, ...]:
    """Names of the spaces that the package ships, sorted."""
    folder = files("autotune_configs") / "search"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def load_space(name_or_path: str | Path = "default") -> SearchSpace:
    """A search space that the package ships, or one from a file.

    Raises:
        SearchError: there is no such space or file, or it is not valid.
    """
    if str(name_or_path) in space_names():
        text = (files("autotune_configs") / "search" / f"{name_or_path}.yaml").read_text("utf-8")
    elif Path(name_or_path).suffix in (".yaml", ".yml"):
        text = read_text(Path(name_or_path), SearchError)
    else:
        raise SearchError(
            "a search space is a name or a YAML file",
            got=repr(str(name_or_path)),
            remedy=f"known: {', '.join(space_names())}",
        )
    return validate(SearchSpace, parse_mapping(text, SearchError), SearchError, f"search space {name_or_path}")
