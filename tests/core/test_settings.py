"""Settings: defaults, partial files, and errors that name the nearest setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.errors import ConfigError
from autotune.core.settings import Settings, load_settings, parse_settings
from autotune.core.types import StoreMode, Timing


def test_defaults() -> None:
    """Without a file the documented defaults hold."""
    settings = load_settings()
    assert (settings.search.trials, settings.search.seed, settings.search.sampler) == (100, 0, "tpe")
    assert settings.search.train_frac == 0.6
    assert settings.simulation.store_mode is StoreMode.EAGER
    assert settings.simulation.itl_ms == 8.0
    assert settings.queue.prefetch_depth == 1
    assert (settings.validation.bootstrap_windows, settings.validation.confidence) == (30, 0.9)


def test_file_changes_what_it_names(tmp_path: Path) -> None:
    """A file that names two settings changes these two and nothing else."""
    path = tmp_path / "settings.yaml"
    path.write_text("search: {trials: 7}\nsimulation: {timing: service}\n", encoding="utf-8")
    settings = load_settings(path)
    assert (settings.search.trials, settings.simulation.timing) == (7, Timing.SERVICE)
    assert settings.validation == Settings().validation
    assert settings.search.model_copy(update={"trials": 100}) == Settings().search


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serch: {}", "did you mean 'search'"),
        ("search: {trails: 3}", "search.trails is not a known name; got 3; did you mean 'trials'"),
        ("search: {sampler: tpee}", "search.sampler must be one of 'tpe', 'random', 'cmaes' or 'nsga2'"),
        ("search: {train_frac: 1}", "search.train_frac must be less than 1.0"),
        ("search: {trials: 1.5}", "search.trials must be a whole number"),
        ("simulation: {itl_ms: .nan}", "finite"),
        ("simulation: {full_blocks: yes}", "must be true or false"),
    ],
)
def test_faults_are_named(text: str, message: str) -> None:
    """A wrong name, type or range is one line with the setting's path."""
    with pytest.raises(ConfigError) as caught:
        parse_settings(text)
    assert message in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A settings file that is not there is an error that names it."""
    with pytest.raises(ConfigError, match=r"none\.yaml must be a readable file"):
        load_settings(tmp_path / "none.yaml")


def test_every_setting_is_described() -> None:
    """No setting goes without a description, for the file and the reference are written from them."""
    for section_name, section in Settings.model_fields.items():
        assert section.description, section_name
        for name, field in type(getattr(Settings(), section_name)).model_fields.items():
            assert field.description, f"{section_name}.{name}"
