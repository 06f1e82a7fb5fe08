from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune_policies.engines.live.versions import Version, engine_of, is_within


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("0.32.0", ">=0.24,<0.34", True),
        ("0.32.0+cpu", ">=0.24,<0.34", True),
        ("0.24", ">=0.24.0", True),
        ("0.34.0", ">=0.24,<0.34", False),
        ("0.34.0rc1", ">=0.24,<0.34", False),
        ("0.34.0.dev7+g1234abc", "<0.34", False),
        ("0.33.1.dev7+g1234abc", ">=0.24,<0.34", True),
        ("0.24.0rc1", ">=0.24", False),
        ("0.24.0.post1", ">0.24", False),
        ("0.24.1", ">0.24", True),
        ("0.24", ">0.24rc1", True),
        ("0.24.dev3", ">0.24", False),
        ("0.24.0.post1", ">=0.24", True),
        ("0.9.0", ">=0.24", False),
        ("0.100.0", ">=0.24", True),
        ("0.32.0", "==0.32", True),
        ("0.32.1", "==0.32", False),
        ("0.32.0", "!=0.32", False),
        ("dev", ">=0.24", False),
        ("dev", "", True),
        ("", "", True),
        ("0.5.10.post1", "==0.5.10.post1", True),
    ],
)
def test_versions_fit_ranges_as_in_pep_440(version: str, bounds: str, fits: bool) -> None:
    """A version is within a range exactly where Python's own rule for versions says so; one unread fits no bound."""
    assert is_within(version, f"vllm{bounds}") is fits


def test_the_engine_of_a_range_is_its_name() -> None:
    """The name ends where the first bound begins."""
    assert engine_of("vllm>=0.24,<0.34") == "vllm"
    assert engine_of("tensorrt-llm") == "tensorrt-llm"


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_releases_compare_by_their_numbers(left: list[int], right: list[int]) -> None:
    """Exactly one of <, == and > holds, by the numbers with zeros added at the end."""
    texts = [".".join(map(str, numbers)) for numbers in (left, right)]
    padded = [numbers + [0] * (4 - len(numbers)) for numbers in (left, right)]
    assert is_within(texts[0], f"vllm<{texts[1]}") is (padded[0] < padded[1])
    assert is_within(texts[0], f"vllm=={texts[1]}") is (padded[0] == padded[1])
    assert is_within(texts[0], f"vllm>={texts[1]}") is (padded[0] >= padded[1])


@given(st.text(max_size=20))
def test_any_text_is_a_version_or_none(text: str) -> None:
    """Reading a version never fails otherwise."""
    assert Version.parse(text) is None or isinstance(Version.parse(text), Version)
