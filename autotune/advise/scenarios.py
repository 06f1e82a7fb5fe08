"""Scenarios: a kind of traffic with the load to plan for, the settings to tune with, and the targets of its classes."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.settings import Settings, load_settings
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import Strict, nearest, validate

_FOLDER = resources.files("autotune_configs") / "scenarios"
DEFAULT_CONTEXT_TOKENS = 8192
DEFAULT_CONCURRENCY = 16


class ScenarioLoad(Strict):
    """What to plan for."""

    context_tokens: int = Field(ge=1, description="Tokens of each sequence.")
    concurrency: int = Field(ge=1, description="Sequences at once.")
    resident_frac: str = Field(description="Share p of the KV that stays on the device, as text.")


class TrafficClass(Strict):
    """Requests that are promised the same."""

    name: str = Field(min_length=1, max_length=100, description="What the class is called.")
    max_input_tokens: int = Field(ge=1, description="Longest prompt of the class; a request is of the first that fits.")
    ttft_goal_ms: float = Field(gt=0.0, description="Milliseconds to the first token that count as good service.")
    goodput_goal_frac: float = Field(gt=0.0, le=1.0, description="Share of its requests that must be served so.")


class Scenario(Strict):
    """One kind of traffic."""

    name: str = Field(min_length=1, description="What the scenario is called.")
    traffic: str = Field(min_length=1, description="Which traffic it is for.")
    load: ScenarioLoad = Field(description="What to plan for.")
    settings: dict[str, Any] = Field(default={}, description="Settings of the tuner that differ from the defaults.")
    classes: tuple[TrafficClass, ...] = Field(default=(), description="Classes of requests, shortest prompts first.")
    tried_on: str = Field(min_length=1, description="Trace, command and result of a run with this file.")


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios that come along, sorted."""
    return tuple(sorted(f.name.removesuffix(".yaml") for f in _FOLDER.iterdir() if f.name.endswith(".yaml")))


def load_scenario(name_or_path: str) -> Scenario:
    """A scenario by name or from a file of the same form.

    Raises:
        ConfigError: there is none, or it breaks a rule.
    """
    if name_or_path in scenario_names():
        text, what = (_FOLDER / f"{name_or_path}.yaml").read_text("utf-8"), f"scenario {name_or_path}"
    elif Path(name_or_path).is_file():
        text, what = read_text(Path(name_or_path), ConfigError), name_or_path
    else:
        raise ConfigError(
            "a scenario is a known name or the path of a YAML file",
            got=repr(name_or_path),
            remedy=nearest(name_or_path, scenario_names()),
        )
    scenario = validate(Scenario, parse_mapping(text, ConfigError), ConfigError, what)
    validate(Settings, scenario.settings, ConfigError, f"{what}: settings")
    return scenario


def scenario_settings(name_or_path: str | None, path: Path | None = None) -> Settings:
    """Settings of a scenario, with those of a file on top.

    Raises:
        ConfigError: the scenario or the file is not valid.
    """
    if name_or_path is None:
        return load_settings(path)
    tree = load_scenario(name_or_path).settings
    if path is not None:
        tree = _merged(tree, parse_mapping(read_text(path, ConfigError), ConfigError))
    return validate(Settings, tree, ConfigError, "settings")


def planned_load(
    name_or_path: str | None, context_tokens: int | None, concurrency: int | None, resident_frac: str | None
) -> tuple[int, int, str]:
    """Context, concurrency and p: what was given, else the scenario's, else the defaults.

    Raises:
        ConfigError: the scenario is not valid.
    """
    load = (
        ScenarioLoad(context_tokens=DEFAULT_CONTEXT_TOKENS, concurrency=DEFAULT_CONCURRENCY, resident_frac="1")
        if name_or_path is None
        else load_scenario(name_or_path).load
    )
    return (
        context_tokens or load.context_tokens,
        concurrency or load.concurrency,
        resident_frac or load.resident_frac,
    )


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Section by section, the second over the first."""
    both = dict(below)
    for name, value in above.items():
        inner = both.get(name)
        both[name] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both
