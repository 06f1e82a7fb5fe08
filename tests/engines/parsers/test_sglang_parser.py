"""What is rendered for SGLang, in the hands of SGLang's own parser and of its rules for HiCache."""

from __future__ import annotations

import shlex

import pytest
from engine_parser import accepted, ask
from export_documents import DISK, document, export

from autotune.core.errors import ConfigError
from autotune.core.policy import Hints
from autotune.core.types import Admission, StoreMode
from autotune.export.field_table import table
from autotune.export.renderer import Settings
from autotune.export.sglang import check

pytestmark = [pytest.mark.parser("sglang"), pytest.mark.slow]

POLICIES = (
    document(),
    document(chunk_tokens=64, admission=Admission.TWO_HIT, hints=Hints(use_priority=True)),
    document(store_mode=StoreMode.LAZY, disk_gib=1000),
)


def test_flags_are_read() -> None:
    """Every value arrives, and SGLang's rules change none of them."""
    rendered = [export("sglang", policy, ranks=2, disk_dir=DISK) for policy in POLICIES]
    parsed = accepted("sglang", *({"flags": shlex.split(one.text)} for one in rendered))
    for one, values in zip(rendered, parsed, strict=True):
        assert {name: values[name.replace("-", "_")] for name in one.settings} == one.settings


def test_parser_takes_what_is_refused_here() -> None:
    """Negative sizes, bad JSON, storage without HiCache and small ratios pass SGLang's parser."""
    cases: list[Settings] = [
        {"enable-hierarchical-cache": True, "hicache-size": -4},
        {"enable-hierarchical-cache": True, "hicache-ratio": 0.5},
        {"hicache-storage-backend": "file"},
        {
            "enable-hierarchical-cache": True,
            "hicache-storage-backend": "file",
            "hicache-storage-backend-extra-config": "{bad",
        },
    ]
    accepted("sglang", *({"flags": words(case)} for case in cases))
    for case in cases:
        with pytest.raises(ConfigError):
            check(case)


def test_layouts_are_rewritten_as_the_notes_say() -> None:
    """Direct copies with page_first become page_first_direct; layer_first with mooncake becomes page_first."""
    base: Settings = {"enable-hierarchical-cache": True, "hicache-size": 4}
    direct, mooncake = accepted(
        "sglang",
        {"flags": words({**base, "hicache-io-backend": "direct", "hicache-mem-layout": "page_first"})},
        {"flags": words({**base, "hicache-storage-backend": "mooncake", "hicache-mem-layout": "layer_first"})},
    )
    assert direct["hicache_mem_layout"] == "page_first_direct"
    assert mooncake["hicache_mem_layout"] == "page_first"


def test_choices_of_the_table_are_those_of_the_parser() -> None:
    """SGLang takes every choice of the table and refuses a name that is none."""
    for name, field in table("sglang").fields.items():
        if field.choices:
            answers = ask("sglang", *({"flags": [f"--{name}", choice]} for choice in (*field.choices, "none-such")))
            assert [answer.accepted for answer in answers] == [True] * len(field.choices) + [False]


def words(settings: Settings) -> list[str]:
    """A command line."""
    return [word for name, value in settings.items() for word in (f"--{name}", str(value)) if word != "True"]
