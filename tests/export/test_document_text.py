"""Documents as text: same values back, same bytes again, and a file that is never half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from autotune.core.errors import PolicyError
from autotune.core.policy import PolicyDocument, load, parse
from autotune.core.strict_yaml import parse_mapping
from autotune.export import render, save
from autotune.testing.documents import example_document, policy_documents

DOCUMENT = example_document()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(policy_documents())
def test_round_trip(document: PolicyDocument) -> None:
    """Any document is read back equal, renders to the same bytes again, and reads alike in any YAML reader."""
    text = render(document)
    again = parse(text)
    assert again == document
    assert render(again) == text
    assert yaml.safe_load(text) == parse_mapping(text, PolicyError)


def test_comments_explain_every_number() -> None:
    """Each value of an ordinary document has a comment where its name occurs first."""
    lines = [line.strip() for line in render(DOCUMENT).splitlines()]
    seen: set[str] = set()
    for position, line in enumerate(lines):
        name = line.removeprefix("- ").partition(":")[0]
        if not line or line.startswith("#") or line.startswith('- "') or name in seen:
            continue
        seen.add(name)
        assert lines[position - 1].startswith("#"), line
    assert {"lambda_recency", "device_bytes", "load_bytes_per_s", "probability"} <= seen


def test_text_is_for_people() -> None:
    """The text says what λ is, and sizes and rates in the units that people use."""
    text = render(DOCUMENT)
    assert "λ: weight of recency against value" in text
    assert "device_bytes: 42949672960  # 40 GiB" in text
    assert "load_bytes_per_s: 50000000000.0  # 50 GB/s" in text
    assert "lease" not in text  # sections that are not there are not listed


def test_save_and_load(tmp_path: Path) -> None:
    """A saved document loads equal, and nothing but the document is left in the folder."""
    save(DOCUMENT, tmp_path / "policy.yaml")
    assert load(tmp_path / "policy.yaml") == DOCUMENT
    assert [path.name for path in tmp_path.iterdir()] == ["policy.yaml"]


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up before the text is safe leaves the old document and no debris."""
    path = tmp_path / "policy.yaml"
    path.write_text("old", encoding="utf-8")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PolicyError, match="must be writable; got No space left"):
        save(DOCUMENT, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy.yaml"]


def test_save_into_a_missing_folder(tmp_path: Path) -> None:
    """A folder that is not there is one line that names the file."""
    with pytest.raises(PolicyError, match=r"policy\.yaml must be writable"):
        save(DOCUMENT, tmp_path / "none" / "policy.yaml")


def test_save_keeps_permissions_and_links(tmp_path: Path) -> None:
    """The engine that could read the old file can read the new one, also through a symbolic link."""
    target, link = tmp_path / "real.yaml", tmp_path / "policy.yaml"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to(target)
    save(DOCUMENT, link)
    assert link.is_symlink()
    assert load(target) == DOCUMENT
    assert target.stat().st_mode & 0o777 == 0o640


def test_new_file_has_ordinary_permissions(tmp_path: Path) -> None:
    """A new file is as readable as any file that the process makes."""
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    save(DOCUMENT, tmp_path / "policy.yaml")
    assert (tmp_path / "policy.yaml").stat().st_mode == ordinary.stat().st_mode
