"""Arbitrary reuse models and rows of features, for tests of whatever evaluates, writes or reads them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from autotune.core.decide.features import DEPTH_TOKENS, FEATURES, GAP_S, N_FEATURES, STOP_CODE
from autotune.core.decide.reuse_layout import N_AGE_BINS, N_CLASSES, N_EDGES
from autotune.core.reuse import NO_FEATURE, SCORE_BITS, Calibration, HorizonModel, ReuseModel, ScoreTable

MAX_ENTRY = 2**43  # 8 in log odds
_CUTS = st.floats(-10.0, 1e6) | st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 1e-300, 512.0])


def example_reuse_model() -> ReuseModel:
    """A small model: deep blocks and those that were idle for a short time come back, after a tool call soonest."""
    unit = 2**SCORE_BITS
    depth = ScoreTable(DEPTH_TOKENS, NO_FEATURE, (512.0, 4096.0), (), _whole([[-0.75], [0.0], [0.5]]))
    idle = ScoreTable(GAP_S, NO_FEATURE, (-0.5, 30.0), (), _whole([[-0.25], [1.0], [-0.5]]))
    both = ScoreTable(STOP_CODE, GAP_S, (1.5, 2.5), (30.0,), _whole([[-0.125, 0.25], [0.75, -0.5], [0.0, 0.125]]))
    ages_s = tuple(float(f"{0.1 * 1.25**k:.6g}") for k in range(N_EDGES))
    shape = 1.0 / (np.array((0.05, *ages_s)) + 20.0)
    level = np.linspace(0.1, 1.6, N_CLASSES)
    return ReuseModel(
        features=tuple(name for name in FEATURES if name not in ("session_end", "expected_idle_s", "priority")),
        near=HorizonModel(60.0, -unit, (depth, idle, both)),
        far=HorizonModel(600.0, -unit // 4, (depth, idle)),
        near_cuts=(-2 * unit, -unit, 0),
        far_cuts=((-2 * unit, -unit, 0), (-unit, 0, unit), (-unit, 0, unit), (0, unit // 4, unit)),
        edges_s=ages_s,
        hazard_per_s=np.array([[float(f"{value:.6g}") for value in row] for row in np.outer(level, shape).tolist()]),
    )


def _whole(scores: list[list[float]]) -> npt.NDArray[np.int64]:
    return np.array([[round(score * 2**SCORE_BITS) for score in row] for row in scores], np.int64)


@st.composite
def reuse_models(draw: st.DrawFn) -> ReuseModel:
    """Models with few or no tables, equal or spread cuts of classes, and hazards of all sizes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low, factor = draw(st.floats(1e-3, 10.0)), draw(st.floats(1.01, 1.4))
    hazard = 10.0 ** rng.uniform(-9.0, 1.0, (N_CLASSES, N_AGE_BINS))
    return ReuseModel(
        features=FEATURES,
        near=draw(_horizons(rng, 60.0)),
        far=draw(_horizons(rng, 600.0)),
        near_cuts=draw(_three_cuts()),
        far_cuts=tuple(draw(_three_cuts()) for _ in range(4)),
        edges_s=tuple(low * factor**k for k in range(N_EDGES)),
        hazard_per_s=np.where(rng.random(hazard.shape) < draw(st.sampled_from([0.0, 0.2])), 0.0, hazard),
    )


@st.composite
def _three_cuts(draw: st.DrawFn) -> tuple[int, int, int]:
    low, middle, high = sorted(draw(st.lists(st.integers(-(2**45), 2**45), min_size=3, max_size=3)))
    return low, middle, high


@st.composite
def feature_rows(draw: st.DrawFn, model: ReuseModel) -> npt.NDArray[np.float64]:
    """Rows ``(n, n_features)`` with unknown, extreme and ordinary values, and values that equal a cut."""
    tables = (*model.near.tables, *model.far.tables)
    cuts = sorted({cut for table in tables for cut in (*table.first_cuts, *table.second_cuts)})
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.array([-1.0, 0.0, 1e18, *cuts])
    rows = rng.choice(values, (draw(st.integers(1, 5)), N_FEATURES))
    return np.where(rng.random(rows.shape) < 0.3, 10.0 ** rng.uniform(-3.0, 6.0, rows.shape), rows)


@st.composite
def _horizons(draw: st.DrawFn, rng: np.random.Generator, horizon_s: float) -> HorizonModel:
    pairs = draw(st.lists(st.tuples(*[st.integers(0, N_FEATURES - 1)] * 2), max_size=6, unique=True))
    tables = [draw(_tables(rng, *sorted(pair))) for pair in {frozenset(pair): pair for pair in pairs}.values()]
    tables.sort(key=lambda table: table.second != NO_FEATURE)
    return HorizonModel(horizon_s, draw(st.integers(-MAX_ENTRY, MAX_ENTRY)), tuple(tables), draw(_calibrations()))


@st.composite
def _calibrations(draw: st.DrawFn) -> Calibration | None:
    if draw(st.booleans()):
        return None
    scores = draw(st.lists(st.integers(-MAX_ENTRY, MAX_ENTRY), min_size=1, max_size=5, unique=True))
    chances = draw(st.lists(st.floats(0.0, 1.0), min_size=len(scores), max_size=len(scores)))
    return Calibration(tuple(sorted(scores)), tuple(sorted(chances)))


@st.composite
def _tables(draw: st.DrawFn, rng: np.random.Generator, first: int, second: int) -> ScoreTable:
    ascending = st.lists(_CUTS, max_size=5, unique=True).map(lambda cuts: tuple(sorted(cuts)))
    rows = draw(ascending)
    columns = () if first == second else draw(ascending)
    return ScoreTable(
        first=first,
        second=NO_FEATURE if first == second else second,
        first_cuts=rows,
        second_cuts=columns,
        scores=rng.integers(-MAX_ENTRY, MAX_ENTRY, (len(rows) + 1, len(columns) + 1)),
    )
