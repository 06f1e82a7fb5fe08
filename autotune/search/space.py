"""The search space: which knobs move, and how far; read from YAML."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from optuna.distributions import BaseDistribution
from pydantic import model_validator

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.types import Admission
from autotune.core.validation import Strict, validate
from autotune.search.knob import Knob, Suggests, Value
from autotune.search.setting import Setting

__all__ = ["Knob", "SearchSpace", "load_space", "space_names"]


class SearchSpace(Strict):
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

    @model_validator(mode="after")
    def _only_values_that_exist(self) -> SearchSpace:
        for name, knob in self._knobs():
            knob.check(name)
        return self

    def draw(self, trial: Suggests) -> Setting:
        """The setting that a trial stands for."""
        values = {name: knob.draw(name, trial) for name, knob in self._knobs()}
        admission = Admission(str(values.pop("admission")))
        return Setting(admission=admission, **values)  # type: ignore[arg-type]  # checked when the space was read

    def parameters_of(self, setting: Setting) -> dict[str, Value]:
        """Parameters of the trial that stands for a setting, or comes closest to it in this space."""
        return {name: knob.nearest(_plain(getattr(setting, name))) for name, knob in self._knobs() if knob.moves}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna distributions of the knobs that move."""
        return {name: knob.distribution(name) for name, knob in self._knobs() if knob.moves}

    def moving(self) -> tuple[str, ...]:
        """Names of the knobs that move."""
        return tuple(name for name, knob in self._knobs() if knob.moves)

    def _knobs(self) -> list[tuple[str, Knob]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]


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


def _plain(value: object) -> Value:
    return str(value) if isinstance(value, Admission) else value  # type: ignore[return-value]
