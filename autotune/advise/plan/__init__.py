"""Planning: whether a model fits under a load on a machine, how fast it decodes, and which technique would help."""

from __future__ import annotations

from autotune.advise.plan.build import Plan, build_plan
from autotune.advise.plan.request import PlanRequest

__all__ = ["Plan", "PlanRequest", "build_plan"]
