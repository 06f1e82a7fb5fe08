"""Dynamo's own reading of its router's settings, and the names of variables in the library of its block manager."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from answering import Case, answer_all


def ask(case: Case) -> Any:
    """A router's settings, or which of some names the library holds."""
    if "names" in case:
        spec = find_spec("kvbm")
        assert spec and spec.submodule_search_locations
        library = next(Path(spec.submodule_search_locations[0]).glob("_core*.so")).read_bytes()
        return [name for name in case["names"] if re.search(rf"{name}(?![A-Z0-9]*_)".encode(), library)]
    from dynamo.llm import KvRouterConfig

    KvRouterConfig(**case["router"])
    return case["router"]


if __name__ == "__main__":
    answer_all(ask)
