"""Files of the data package that are written from the code are up to date and mean what the code means."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from autotune.core.errors import PolicyError
from autotune.core.policy import PolicyDocument, parse
from autotune.core.settings import Settings, parse_settings
from autotune.export import render
from autotune.export.generated import generated_files
from autotune.export.schema import policy_schema
from autotune.testing.documents import example_document, policy_documents

CONFIGS = resources.files("autotune_configs")
POLICIES = Path(__file__).parents[1] / "data/policies"
VALIDATOR = jsonschema.Draft202012Validator(policy_schema())


@pytest.mark.parametrize("name", sorted(generated_files()))
def test_committed_file_is_current(name: str) -> None:
    """The committed file is what the code writes; else run python -m autotune.export.generated."""
    assert (CONFIGS / name).read_text("utf-8") == generated_files()[name]


def test_default_settings_file_holds_the_defaults() -> None:
    """default.yaml, read as a settings file, is the settings without a file."""
    assert parse_settings((CONFIGS / "default.yaml").read_text("utf-8")) == Settings()


def test_schema_is_a_schema() -> None:
    """The committed schema is itself valid."""
    jsonschema.Draft202012Validator.check_schema(json.loads((CONFIGS / "schema/policy-v1.json").read_text("utf-8")))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(policy_documents())
def test_schema_accepts_rendered_documents(document: PolicyDocument) -> None:
    """Every document that is written is valid by the schema, too."""
    VALIDATOR.validate(yaml.safe_load(render(document)))


@pytest.mark.parametrize("name", ["v1_lru.yaml", "v1_rank.yaml"])
def test_schema_accepts_documents_written_by_hand(name: str) -> None:
    """Documents with keys left out are valid by the schema as they are for the reader."""
    VALIDATOR.validate(yaml.safe_load((POLICIES / name).read_text(encoding="utf-8")))


def _without(*path: str) -> Any:
    tree: Any = yaml.safe_load(render(example_document()))
    node = tree
    for part in path[:-1]:
        node = node[part]
    del node[path[-1]]
    return tree


def _with(value: object, *path: str) -> Any:
    tree: Any = yaml.safe_load(render(example_document()))
    node = tree
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        _without("schema"),
        _without("kind"),
        _without("rank"),
        _without("costs", "load_bytes_per_s"),
        _with("class_hazard", "kind"),
        _with(0, "rank", "host", "lambda_recency"),
        _with(1, "rank", "host", "lamda"),
        _with("yes", "tiers", "host", "store_mode"),
        _with([{"frequency_min": 1}], "prices", "reuse"),
    ],
)
def test_schema_and_reader_refuse_alike(tree: object) -> None:
    """What breaks a rule about one value is refused by the schema and by the reader."""
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(tree)
    with pytest.raises(PolicyError):
        parse(yaml.safe_dump(tree))
