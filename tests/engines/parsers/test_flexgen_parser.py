"""What is rendered for FlexGen, in the hands of its own parser."""

from __future__ import annotations

import shlex

import pytest
from engine_parser import accepted
from export_documents import document, export

from autotune.core.errors import ConfigError
from autotune.export.flexgen import check

pytestmark = [pytest.mark.parser("flexgen"), pytest.mark.slow]


@pytest.mark.parametrize(("resident", "depth"), [(0.0, 1), (0.5, 0), (1.0, 2)])
def test_flags_are_read(resident: float, depth: int) -> None:
    """Percentages, batches and overlap arrive."""
    rendered = export("flexgen", document(streaming=(resident, depth)), batch_size=48)
    (parsed,) = accepted("flexgen", {"flags": shlex.split(rendered.text)})
    assert parsed["percent"] == rendered.settings["percent"]
    assert (parsed["gpu_batch_size"], parsed["num_gpu_batches"]) == (48, 1)
    assert parsed["overlap"] is (depth > 0)


def test_parser_takes_what_is_refused_here() -> None:
    """Any number of percentages, and any sum, pass FlexGen's parser."""
    short, over = accepted(
        "flexgen", {"flags": ["--percent", "100"]}, {"flags": shlex.split("--percent 0 0 60 50 0 0")}
    )
    for parsed in (short, over):
        with pytest.raises(ConfigError):
            check({"percent": parsed["percent"]})
