"""What is rendered for Transformers, in the hands of its own generation configuration."""

from __future__ import annotations

import pytest
from engine_parser import accepted, ask
from export_documents import document, export

from autotune.core.errors import ConfigError
from autotune.export import Flavor
from autotune.export.transformers import check

pytestmark = pytest.mark.parser("transformers")


@pytest.mark.parametrize("resident", [0.0, 1.0])
def test_entries_are_read(resident: float) -> None:
    """The name of the cache is one that Transformers knows, and it keeps it."""
    given = export("transformers", document(streaming=(resident, 1)), flavor=Flavor.STOCK).settings
    (parsed,) = accepted("transformers", {"generation": given})
    assert parsed == {**given, "transformers_version": "5.23.0"}


def test_parser_refuses_names_of_caches_but_not_of_backends() -> None:
    """An unknown cache is refused by Transformers; an unknown backend is taken, and refused here."""
    quantised = {"cache_implementation": "quantized", "cache_config": {"backend": "quant"}}
    cache, backend = ask(
        "transformers", {"generation": {"cache_implementation": "offlaoded"}}, {"generation": quantised}
    )
    assert "Invalid `cache_implementation` (offlaoded)" in cache.error
    assert backend.accepted
    with pytest.raises(ConfigError, match="got 'quant'"):
        check(quantised)  # type: ignore[arg-type]
