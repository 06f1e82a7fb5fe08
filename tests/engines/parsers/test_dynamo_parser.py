"""What is rendered for Dynamo, in the hands of its router and beside the names in the library of its block manager."""

from __future__ import annotations

import pytest
from engine_parser import accepted, ask
from export_documents import document, export

from autotune.export.field_table import table

pytestmark = [pytest.mark.parser("dynamo"), pytest.mark.slow]


def test_library_has_every_name_of_the_table() -> None:
    """The block manager looks all of them up; a name that it does not have is not found."""
    names = list(table("dynamo").fields)
    (found,) = accepted("dynamo", {"names": [*names, "DYN_KVBM_CPU_CACHE_GIB"]})
    assert found == names


def test_router_takes_its_weights() -> None:
    """The router's strict model takes what is exported, and refuses a weight that is none."""
    router = export("dynamo", document()).settings["router"]
    good, negative, unknown = ask(
        "dynamo",
        {"router": router},
        {"router": {"host_cache_hit_weight": -1.0}},
        {"router": {"host_cache_weight": 1.0}},
    )
    assert good.accepted
    assert "must be between 0 and 1" in negative.error
    assert "unexpected keyword argument" in unknown.error
