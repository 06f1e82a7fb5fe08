"""SGLang's own parser of flags, and its rules for the hierarchical cache."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from answering import Case, answer_all

sys.path.insert(0, str(Path(__file__).parent / "stubs"))


def ask(case: Case) -> Any:
    """The values of the flags after parsing, where SGLang's rules for HiCache let them through."""
    from sglang.srt.arg_groups.hicache_hook import handle_hicache, handle_hicache_ratio_default
    from sglang.srt.arg_groups.overrides import resolving_view
    from sglang.srt.server_args import prepare_server_args

    given = prepare_server_args(["--model-path", "none", *case["flags"]])
    handle_hicache_ratio_default(given)
    handle_hicache(given)
    names = ("enable_hierarchical_cache", "max_total_tokens", "page_size", "radix_eviction_policy")
    hicache = [name for name in dir(given) if name.startswith("hicache_")]
    resolved = resolving_view(given)
    return {name: getattr(resolved, name) for name in (*names, *hicache)}


if __name__ == "__main__":
    answer_all(ask)
