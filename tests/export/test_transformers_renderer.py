"""Policy documents as caches of Transformers."""

from __future__ import annotations

import ast
import json

import pytest
from export_documents import document, export, notes

from autotune.core.errors import ConfigError
from autotune.export import Flavor
from autotune.export.transformers import check


def test_our_cache_is_python_with_p_and_d() -> None:
    """The text is Python that names our cache, the policy's share and its depth."""
    rendered = export("transformers", document(streaming=(0.25, 2)))
    calls = [node for node in ast.walk(ast.parse(rendered.text)) if isinstance(node, ast.Call)]
    arguments = {
        keyword.arg: ast.literal_eval(keyword.value)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "StreamingCache"
        for keyword in call.keywords
    }
    assert "Placement" not in rendered.text
    assert arguments == rendered.settings == {"resident_frac": 0.25, "prefetch_depth": 2}
    assert rendered.flavor is Flavor.PLUGIN


@pytest.mark.parametrize(("resident", "name"), [(0.0, "offloaded"), (1.0, "dynamic")])
def test_stock_has_all_or_nothing(resident: float, name: str) -> None:
    """Transformers' own caches are the one on the device and the one on the host."""
    rendered = export("transformers", document(streaming=(resident, 1)), flavor=Flavor.STOCK)
    assert json.loads(rendered.text) == {"cache_implementation": name}


def test_stock_cannot_keep_a_part() -> None:
    """A share between 0 and 1 needs our cache."""
    with pytest.raises(ConfigError, match=r"resident_frac must be 0 or 1; got 0.5; leave --flavor away"):
        export("transformers", document(streaming=(0.5, 1)), flavor=Flavor.STOCK)


def test_stock_says_which_depth_it_has() -> None:
    """Its offloaded cache fetches one layer ahead; another depth is named, and so is CUDA."""
    said = notes("transformers", document(streaming=(0.0, 3)), flavor=Flavor.STOCK)
    assert "not expressed: prefetch depth 3" in said
    assert "needs CUDA" in said
    assert "prefetch depth" not in notes("transformers", document(streaming=(0.0, 1)), flavor=Flavor.STOCK)


def test_backend_that_does_not_exist_is_refused() -> None:
    """Transformers accepts any name of a backend and fails in generate."""
    with pytest.raises(ConfigError, match="must be one of quanto, hqq, fp8; got 'quant'"):
        check({"cache_implementation": "quantized", "cache_config": {"backend": "quant"}})
    assert check({"cache_implementation": "quantized", "cache_config": {"backend": "hqq"}})
