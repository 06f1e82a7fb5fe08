"""Pictures and page of streamed generation: time over p and d, predicted and measured."""

from __future__ import annotations

from autotune.report.streaming.page import save_streaming_report
from autotune.report.streaming.surface import SurfacePoint, surface_svg

__all__ = ["SurfacePoint", "save_streaming_report", "surface_svg"]
