"""Searching how to stream the KV of running requests, with real short generations as the objective.

The search itself is in :mod:`autotune.search.streaming.study`, which needs Optuna; the rest does not.
"""

from __future__ import annotations

from autotune.search.streaming.document import make_streaming_document
from autotune.search.streaming.measure import measure
from autotune.search.streaming.result import Comparison, StreamingResult, StreamingRow, StreamingSpace

__all__ = ["Comparison", "StreamingResult", "StreamingRow", "StreamingSpace", "make_streaming_document", "measure"]
