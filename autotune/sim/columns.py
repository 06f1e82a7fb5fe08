"""Columns of the per-request output that the compiled and the plain loop fill in."""

from __future__ import annotations

DEVICE_HIT, HOST_HIT, DISK_HIT, STORED, STORED_DISK, EVICTED_DEVICE, EVICTED_HOST, OVERSIZED = range(8)
N_COLUMNS = 8
