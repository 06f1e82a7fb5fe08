"""The search space: what a file may say, what trials draw, and where LRU lies in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import SearchError
from autotune.core.types import Admission
from autotune.core.validation import validate
from autotune.search.problem import Problem
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.space import Knob, SearchSpace, load_space, space_names

FIXED = {
    "lambda_recency": "{low: 0.1, high: 1.0, log: true}",
    "tau_turnovers": "{value: 1.0}",
    "half_life_turnovers": "{low: 1.0, high: 20.0, none_above: 10.0}",
    "cost_weight": "{low: 0, high: 1}",
    "ghost_ratio": "{value: 8.0}",
    "admission": "{choices: [all, two_hit]}",
    "min_load_tokens": "{low: 0, high: 64}",
    "resident_frac": "{low: 0.1, high: 0.5}",
    "prefetch_depth": "{value: null}",
    "chunk_blocks": "{choices: [1, 2, 4]}",
}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a space with some knobs changed, and gives its file."""

    def to_file(**changes: str) -> Path:
        file = tmp_path / "space.yaml"
        file.write_text("\n".join(f"{name}: {text}" for name, text in (FIXED | changes).items() if text), "utf-8")
        return file

    return to_file


def draws(space: SearchSpace, n: int = 40) -> list[Setting]:
    """Settings of that many random trials."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [space.draw(study.ask()) for _ in range(n)]


@pytest.mark.parametrize("name", space_names())
def test_shipped_spaces_hold_lru(name: str) -> None:
    """Every shipped space reads, and the point nearest to LRU is LRU."""
    space = load_space(name)
    study = optuna.create_study()
    study.enqueue_trial(space.parameters_of(LRU_SETTING))
    drawn = space.draw(study.ask())
    assert drawn.is_lru
    assert drawn.lambda_recency == 1.0


def test_default_space_is_what_no_name_means() -> None:
    """Without a name it is the default one, which moves the knobs of the rank rule only."""
    assert load_space() == load_space("default")
    assert set(load_space().moving()) == {
        "lambda_recency",
        "tau_turnovers",
        "half_life_turnovers",
        "cost_weight",
        "ghost_ratio",
    }


def test_full_space_moves_everything() -> None:
    """Two spaces ship; the full one moves every knob there is."""
    assert space_names() == ("default", "full")
    assert load_space("full").moving() == tuple(FIXED)


@pytest.mark.parametrize("name", space_names())
def test_a_setting_of_a_space_comes_back(name: str) -> None:
    """A setting that a trial can stand for is drawn again from its own parameters."""
    space = load_space(name)
    inside = Setting(0.3, 1.5, 20.0, 0.4, 16.0, Admission.MARGINAL)
    if name == "full":
        inside = Setting(0.3, 1.5, 20.0, 0.4, 16.0, Admission.TWO_HIT, 700, 0.25, 3, 4)
    assert space.draw(optuna.trial.FixedTrial(space.parameters_of(inside))) == inside


def test_lru_keeps_the_split_that_was_given(with_host: Problem) -> None:
    """In the full space LRU's trial has the share of the budget that the device was given."""
    assert load_space("full").parameters_of(with_host.own_setting)["resident_frac"] == 300 / 1800


@pytest.mark.parametrize(
    ("name", "knob", "drawn", "meant"),
    [
        ("half_life_turnovers", Knob(low=1.0, high=10.0, none_above=5.0), 5.0, 5.0),
        ("half_life_turnovers", Knob(low=1.0, high=10.0, none_above=5.0), 5.1, 0.0),
        ("min_load_tokens", Knob(low=0, high=4096, none_above=2048), 2048, 2048),
        ("min_load_tokens", Knob(low=0, high=4096, none_above=2048), 2049, 0),
    ],
)
def test_draws_above_none_above_mean_zero(name: str, knob: Knob, drawn: float, meant: float) -> None:
    """A draw above ``none_above`` switches the knob off, a draw at it does not, for real and for whole numbers."""
    knob.check(name)
    assert knob.draw(name, optuna.trial.FixedTrial({name: drawn})) == meant


def test_draws_stay_inside(write: Write) -> None:
    """Ranges bound what is drawn, whole knobs draw whole numbers, and above the limit there is no decay."""
    space = load_space(write())
    settings = draws(space)
    assert all(0.1 <= s.lambda_recency <= 1.0 and 0.1 <= (s.resident_frac or 0.0) <= 0.5 for s in settings)
    assert all(type(s.min_load_tokens) is int and 0 <= s.min_load_tokens <= 64 for s in settings)
    assert {s.chunk_blocks for s in settings} == {1, 2, 4}
    assert {s.admission for s in settings} == {Admission.ALL, Admission.TWO_HIT}
    assert any(s.half_life_turnovers == 0.0 for s in settings)
    assert all(s.half_life_turnovers <= 10.0 for s in settings)
    assert {(s.tau_turnovers, s.ghost_ratio, s.prefetch_depth) for s in settings} == {(1.0, 8.0, None)}


def test_a_range_of_a_real_knob_is_real(write: Write) -> None:
    """A range from 0 to 1, written without points, holds more than two values where the knob is a real number."""
    assert len({s.cost_weight for s in draws(load_space(write()))}) > 10


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"lambda_recency": "{low: 0.5}"}, ["lambda_recency", "low < high"]),
        ({"lambda_recency": "{low: 0.9, high: 0.2}"}, ["low < high"]),
        ({"lambda_recency": "{low: 0.0, high: 1.0}"}, ["lambda_recency must be a number above 0 up to 1", "got 0"]),
        ({"lambda_recency": "{low: 0.5, high: 1.5}"}, ["got 1.5"]),
        ({"lambda_recency": "{value: null}"}, ["got null"]),
        ({"tau_turnovers": "{low: 0.0, high: 2.0, log: true}"}, ["logarithmic range must be positive"]),
        ({"tau_turnovers": "{value: 0.0}"}, ["tau_turnovers"]),
        ({"tau_turnovers": "{value: 1.0, log: true}"}, ["belong to a range"]),
        ({"tau_turnovers": "{}"}, ["got 0 of the three"]),
        ({"tau_turnovers": "{value: 1.0, choices: [1.0]}"}, ["got 2 of the three"]),
        ({"tau_turnovers": "{choices: []}"}, ["must not be empty"]),
        ({"tau_turnovers": "{choices: [1.0, 1.0]}"}, ["each stands once"]),
        ({"tau_turnovers": "{valeu: 1.0}"}, ["tau_turnovers.valeu", "did you mean 'value'"]),
        ({"lambda_recency": "{low: 0.1, high: 1.0, none_above: 0.9}"}, ["means 0, which lambda_recency cannot be"]),
        ({"chunk_blocks": "{low: 1, high: 8, none_above: 4}"}, ["means 0, which chunk_blocks cannot be", "got 4"]),
        ({"cost_weight": "{low: abc, high: 1.0}"}, ["cost_weight.low must be a number", "got 'abc'"]),
        ({"cost_weight": "0.5"}, ["cost_weight must be a mapping"]),
        ({"admission": "{choices: [all, some]}"}, ["admission must be one of all, marginal, two_hit", "got some"]),
        ({"min_load_tokens": "{low: 0.5, high: 8.0}"}, ["a whole number"]),
        ({"min_load_tokens": "{value: -1}"}, ["got -1"]),
        ({"chunk_blocks": "{choices: [0, 1]}"}, ["chunk_blocks", "got 0"]),
        ({"resident_frac": "{value: 1.5}"}, ["resident_frac", "or null"]),
        ({"prefetch_depth": "{value: fast}"}, ["prefetch_depth", "got fast"]),
        ({"ghost_ratio": ""}, ["ghost_ratio must be given"]),
        ({"lambda": "{value: 1.0}"}, ["lambda is not a known name", "lambda_recency"]),
    ],
)
def test_faults_are_named(write: Write, changes: dict[str, str], parts: list[str]) -> None:
    """A fault is one error that names the file, the knob, what came and, for a typing error, the nearest name."""
    with pytest.raises(SearchError) as caught:
        load_space(write(**changes))
    assert "space.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one YAML mapping of names to values; got nothing"),
        ("[1, 2]", "one YAML mapping of names to values; got a list"),
        ("tau_turnovers: [", "must be valid YAML"),
    ],
)
def test_what_is_no_space_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    """A file that holds something else is refused in one line."""
    file = tmp_path / "space.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SearchError, match=message) as caught:
        load_space(file)
    assert "\n" not in str(caught.value)


def test_numbers_that_are_none_are_refused(write: Write) -> None:
    """NaN and infinity are no values of a knob."""
    for text in (".nan", ".inf"):
        with pytest.raises(SearchError, match="finite"):
            load_space(write(tau_turnovers=f"{{value: {text}}}"))


@pytest.mark.parametrize("source", ["defualt", "no-such-file.yaml", "", "/etc"])
def test_unknown_spaces_are_refused(source: str) -> None:
    """A name that does not ship, and a file that is not there, are errors."""
    with pytest.raises(SearchError):
        load_space(source)


KNOBS: list[tuple[Knob, Any, Any]] = [
    (Knob(low=0.1, high=0.9), 1.0, 0.9),
    (Knob(low=0.1, high=0.9), 0.0, 0.1),
    (Knob(low=0.1, high=0.9), 0.4, 0.4),
    (Knob(low=0.1, high=0.9), None, 0.1),
    (Knob(low=1.0, high=20.0, none_above=10.0), 0.0, 20.0),
    (Knob(choices=("all", "two_hit")), "two_hit", "two_hit"),
    (Knob(choices=("marginal", "two_hit")), "all", "marginal"),
    (Knob(choices=(1, 4, 8)), 5, 4),
    (Knob(choices=(None, 0.2)), None, None),
    (Knob(choices=(None, 0.2, 0.4)), 0.35, 0.4),
    (Knob(value=3), 1, 3),
]


@pytest.mark.parametrize(("knob", "wanted", "nearest"), KNOBS)
def test_nearest_value(knob: Knob, wanted: Any, nearest: Any) -> None:
    """The nearest value lies inside; switched off is the far end of a knob that can be; other choices are the first."""
    assert knob.nearest(wanted) == nearest


@given(low=st.floats(0.01, 0.5), width=st.floats(0.01, 0.5), log=st.booleans(), wanted=st.floats(0.001, 1.0))
def test_a_wanted_setting_is_drawn_as_it_is(low: float, width: float, log: bool, wanted: float) -> None:
    """A trial that stands for a setting draws that setting wherever the space holds it."""
    tree = {name: {"value": getattr(LRU_SETTING, name)} for name in FIXED} | {
        "admission": {"value": "all"},
        "lambda_recency": {"low": low, "high": low + width, "log": log},
    }
    space = validate(SearchSpace, tree, SearchError)
    study = optuna.create_study()
    study.enqueue_trial(space.parameters_of(Setting(lambda_recency=wanted)))
    assert space.draw(study.ask()).lambda_recency == pytest.approx(min(max(wanted, low), low + width))
