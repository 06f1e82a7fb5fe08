"""DeepSpeed's own reading of the section ``zero_optimization``."""

from __future__ import annotations

from typing import Any

from answering import Case, answer_all


def ask(case: Case) -> Any:
    """What DeepSpeed makes of the section."""
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    return {"stage": int(DeepSpeedZeroConfig(**case["zero"]).stage)}


if __name__ == "__main__":
    answer_all(ask)
