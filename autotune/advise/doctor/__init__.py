"""The first-day answer from a page of metrics: would tuning pay here, or what is missing to say."""

from __future__ import annotations

from autotune.advise.doctor.diagnosis import Diagnosis, diagnose
from autotune.advise.doctor.machine import Machine, machine_of
from autotune.advise.doctor.window import Basis, Window, window_between, window_since_start
from autotune.advise.doctor.worth import Verdict, Worth

__all__ = [
    "Basis",
    "Diagnosis",
    "Machine",
    "Verdict",
    "Window",
    "Worth",
    "diagnose",
    "machine_of",
    "window_between",
    "window_since_start",
]
