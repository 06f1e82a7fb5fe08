"""Numbers and texts that sections share, with the ranges that keep every computation finite."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MAX_BYTES = 2**60
MAX_TOKENS = 2**31
MAX_SECONDS = 1e9  # about 32 years; a rank in nanoseconds stays far inside int64
MAX_RATIO = 1e6

Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Seconds = Annotated[float, Field(ge=0.0, le=MAX_SECONDS)]
Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Frac = Annotated[float, Field(ge=0.0, le=1.0)]
BytesPerSecond = Annotated[float, Field(gt=0.0, le=1e18)]
Text = Annotated[str, Field(max_length=4096)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
