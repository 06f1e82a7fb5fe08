"""The range of Transformers that the streaming cache accepts."""

from __future__ import annotations

import pytest

from autotune.core.errors import StreamingError


@pytest.mark.parametrize("version", ["5.0.0", "5.0.0rc1", "5.19.0", "5.24.3"])
def test_tested_versions_are_accepted(version: str) -> None:
    """Both ends of the range, and what lies between."""
    from autotune_policies.engines.transformers.versions import require_supported

    require_supported(version)


@pytest.mark.parametrize("version", ["4.57.6", "5.25.0", "6.0.0", "unknown"])
def test_other_versions_are_refused_with_the_range(version: str) -> None:
    """The message says which versions work and how to install one."""
    from autotune_policies.engines.transformers.versions import require_supported

    with pytest.raises(StreamingError, match=r"5\.0 to 5\.24; got .*pip install"):
        require_supported(version)


def test_policies_of_the_search_are_for_these_versions() -> None:
    """The range in a tuned document is the one that the cache accepts."""
    from autotune.search.streaming.document import ENGINES
    from autotune_policies.engines.transformers.versions import NEWEST, OLDEST

    below = f"{NEWEST[0]}.{NEWEST[1] + 1}"
    assert (f"transformers>={OLDEST[0]}.{OLDEST[1]},<{below}",) == ENGINES


@pytest.mark.engine("torch", "transformers")
def test_the_keyword_of_the_cache_is_found() -> None:
    """A model takes the cache under the name that is looked up."""
    import inspect

    from transformers import LlamaForCausalLM

    from autotune_policies.engines.transformers import cache_keyword

    parameters = inspect.signature(inspect.unwrap(LlamaForCausalLM.forward)).parameters
    assert cache_keyword(LlamaForCausalLM.__new__(LlamaForCausalLM)) in parameters
