"""The page of metrics that an engine serves: fetched, read, and turned into canonical signals."""

from __future__ import annotations

from autotune_collectors.prometheus.collector import PrometheusCollector
from autotune_collectors.prometheus.page import read_page
from autotune_collectors.prometheus.scrape import ScrapeLimits

__all__ = ["PrometheusCollector", "ScrapeLimits", "read_page"]
