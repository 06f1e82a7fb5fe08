"""Facts of the machine and of the control group that this process lives in."""

from __future__ import annotations

from autotune_collectors.host.collector import HostCollector

__all__ = ["HostCollector"]
