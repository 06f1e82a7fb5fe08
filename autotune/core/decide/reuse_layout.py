"""Shape of a reuse model and of its packed tables."""

from __future__ import annotations

N_QUARTILES = 4
"""Quartiles of the near score; each is split into as many quartiles of the far score."""
N_CLASSES = N_QUARTILES * N_QUARTILES

N_EDGES = 48
"""Ages between which the hazard of a class is constant."""
N_AGE_BINS = N_EDGES + 1

FIRST, SECOND, ROW_MAP, COLUMN_MAP = range(4)
"""Columns of ``tables``: feature of the rows, feature of the columns, where in ``maps`` the map of each begins."""
