"""The first-day answer from a page of metrics: would tuning pay here, or what is missing to say."""

from __future__ import annotations

from autotune.advise.doctor.diagnosis import Diagnosis, diagnose
from autotune.advise.doctor.window import Basis, Window, window_between, window_since_start
from autotune.advise.doctor.worth import Verdict, Worth

__all__ = ["Basis", "Diagnosis", "Verdict", "Window", "Worth", "diagnose", "window_between", "window_since_start"]
