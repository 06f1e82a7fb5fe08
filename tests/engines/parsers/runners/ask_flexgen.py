"""FlexGen's own parser of flags, and its policy."""

from __future__ import annotations

import argparse
from typing import Any

from answering import Case, answer_all


def ask(case: Case) -> Any:
    """The values of the flags that say where things lie."""
    from flexgen.flex_opt import add_parser_arguments

    parser = argparse.ArgumentParser()
    add_parser_arguments(parser)
    given = parser.parse_args(case["flags"])
    return {name: getattr(given, name) for name in ("percent", "gpu_batch_size", "num_gpu_batches", "overlap")}


if __name__ == "__main__":
    answer_all(ask)
