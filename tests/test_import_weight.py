"""What runs inside an engine stays light: importing it loads NumPy, PyYAML and pydantic, and no other package."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ALLOWED = {
    "kv-autotune",
    "numpy",
    "pyyaml",
    "pydantic",
    # what pydantic itself needs
    "annotated-types",
    "pydantic-core",
    "typing-extensions",
    "typing-inspection",
}
# Compiled code is loaded through the entry point autotune.kernels only, and needs the extra `tuner`.
COMPILED = "autotune_policies.kernels"
# What binds to an engine loads that engine, and is imported only where it is there.
BINDINGS = ("autotune_policies.engines.transformers", "autotune_policies.engines.vllm")

# Imports each module in turn; prints which packages it brought in, beyond what the interpreter loads at its start.
PROBE = """
import importlib, json, re, sys
known = set(sys.modules)
fresh = {}
for name in json.load(sys.stdin):
    importlib.import_module(name)
    fresh[name] = {module.partition(".")[0] for module in set(sys.modules) - known}
    known |= set(sys.modules)
from importlib.metadata import packages_distributions
owners = packages_distributions()
normal = lambda name: re.sub("[-_.]+", "-", name).lower()
packages = lambda tops: sorted({normal(owner) for top in tops for owner in owners.get(top, [])})
print(json.dumps({name: packages(tops) for name, tops in fresh.items()}))
"""


def modules_of(package: str) -> list[str]:
    """Every module of a package, found without importing any, parents first."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    names = {
        ".".join((package, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        for path in folder.rglob("*.py")
    }
    heavy = tuple(f"{package}." for package in (COMPILED, *BINDINGS))
    return sorted(name for name in names if not f"{name}.".startswith(heavy))


def packages_loaded(modules: list[str]) -> dict[str, set[str]]:
    """The distributions that each module brings in, imported one after the other in a clean interpreter."""
    command = [sys.executable, "-I", "-c", PROBE]
    done = subprocess.run(command, input=json.dumps(modules), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {module: set(packages) for module, packages in json.loads(done.stdout).items()}


@pytest.mark.parametrize("package", ["autotune.core", "autotune_policies"])
def test_light_packages_load_nothing_more(package: str) -> None:
    """Each module of the vocabulary and of the plain policies loads only the packages of an engine's environment."""
    loaded = packages_loaded(modules_of(package))
    assert {module: packages - ALLOWED for module, packages in loaded.items() if packages - ALLOWED} == {}


def test_probe_sees_a_heavy_package() -> None:
    """The probe names a package that is not allowed, so that the test above can fail."""
    assert "numba" in packages_loaded(["numba"])["numba"]


def test_package_itself_loads_none_of_its_parts() -> None:
    """``import autotune`` loads neither a part of the project nor any other package."""
    command = [sys.executable, "-I", "-c", "import autotune, sys; print([m for m in sys.modules if 'autotune.' in m])"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
    assert packages_loaded(["autotune"])["autotune"] <= {"kv-autotune"}
