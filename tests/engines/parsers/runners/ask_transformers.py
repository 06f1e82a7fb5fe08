"""Transformers' own reading of a generation configuration."""

from __future__ import annotations

from typing import Any

from answering import Case, answer_all


def ask(case: Case) -> Any:
    """The entries that differ from Transformers' defaults."""
    from transformers import GenerationConfig

    config = GenerationConfig(**case["generation"])
    config.validate(strict=True)
    return config.to_diff_dict()


if __name__ == "__main__":
    answer_all(ask)
