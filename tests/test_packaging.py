"""A wheel carries everything and works where no checkout is."""

from __future__ import annotations

import email
import fnmatch
import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "autotune": ROOT / "autotune",
    "autotune_policies": ROOT / "policies/autotune_policies",
    "autotune_collectors": ROOT / "collectors/autotune_collectors",
    "autotune_configs": ROOT / "configs/autotune_configs",
}
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "autotune", "policies", "collectors", "configs")
# What a build or a run leaves behind in a source tree.
LEFTOVERS = shutil.ignore_patterns("__pycache__", "*.py[co]", "*.nb[ci]", "build", "dist", "*.egg-info", ".*")

# One pattern for each kind of data that must come along.
NEEDED_DATA = (
    "autotune/py.typed",
    "autotune_configs/default.yaml",
    "autotune_configs/engines/metrics/vllm.yaml",
    "autotune_configs/hardware/h100-sxm.yaml",
    "autotune_configs/models/llama-3.1-8b.yaml",
    "autotune_configs/schema/policy-v1.json",
    "autotune_configs/search/*.yaml",
    "autotune_configs/traces/SOURCE.md",
    "autotune_configs/traces/conversation*.gz",
    "autotune_policies/presets/*.yaml",
)

READ_RESOURCES = """
import hashlib, importlib.resources, json, sys
digests = {}
for name in json.load(sys.stdin):
    package, _, path = name.partition("/")
    digests[name] = hashlib.sha256(importlib.resources.files(package).joinpath(path).read_bytes()).hexdigest()
print(json.dumps(digests))
"""
WHERE_IMPORTED = """
import importlib, json, sys
print(json.dumps({name: importlib.import_module(name).__file__ for name in json.load(sys.stdin)}))
"""
LOAD_ENTRY_POINTS = """
import importlib.metadata, json
points = importlib.metadata.distribution("kv-autotune").entry_points
print(json.dumps([f"{point.group}:{point.name}" for point in points if point.load()]))
"""


def run(command: list[str | Path], cwd: Path, given: object = None) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, cwd=cwd, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from a source distribution, as an index would serve them; needs no network."""
    folder = tmp_path_factory.mktemp("build")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=LEFTOVERS)
        else:
            shutil.copy(ROOT / name, folder)
    run([sys.executable, "-c", "import setuptools.build_meta as b; b.build_sdist('dist')"], cwd=folder)
    (sdist,) = folder.glob("dist/*.tar.gz")
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--wheel-dir", "dist"]
    run([sys.executable, "-m", "pip", "wheel", *options, sdist], cwd=folder)
    (built,) = folder.glob("dist/*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of commands of an environment with the wheel; other packages are borrowed from this environment.

    The borrowed folder comes last on the path, and a ``.pth`` file inside it is not executed there, so that an editable
    installation of the checkout stays out of sight.
    """
    home = tmp_path_factory.mktemp("installed")
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    python = home / "bin/python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel], cwd=home)
    here = run([python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], cwd=home).strip()
    borrowed = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    Path(here, "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    return home / "bin"


def packaged_files() -> dict[str, Path]:
    """Every file under the three packages that is not a leftover, by its name in a wheel."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*"):
            parts = path.relative_to(folder).parts
            if path.is_file() and not any(LEFTOVERS("", [part]) for part in parts):
                found["/".join((package, *parts))] = path
    return found


def test_wheel_has_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    """No module, folder or data file is forgotten, and nothing else lands in site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert names == set(packaged_files())


@pytest.mark.parametrize("pattern", NEEDED_DATA)
def test_needed_data_is_packaged(wheel: Path, pattern: str) -> None:
    """Each kind of data that the program reads at run time is in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        assert fnmatch.filter(archive.namelist(), pattern)


def test_metadata_names_licence_and_extras(wheel: Path) -> None:
    """The wheel states its licence, carries its text and the notice, and offers the extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = f"kv_autotune-{project['version']}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert archive.read(f"{info}/licenses/NOTICE") == (ROOT / "NOTICE").read_bytes()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])


def test_installed_packages_are_the_wheels(installed: Path, tmp_path: Path) -> None:
    """Away from the checkout the three packages come from the environment that the wheel was installed into."""
    places = json.loads(run([installed / "python", "-I", "-c", WHERE_IMPORTED], tmp_path, given=list(PACKAGES)))
    assert set(places) == set(PACKAGES)
    assert all(Path(place).is_relative_to(installed.parent) for place in places.values()), places


def test_installed_data_reads_as_in_the_tree(installed: Path, tmp_path: Path) -> None:
    """``importlib.resources`` reads every data file of the installed packages, byte for byte."""
    files = {name: path for name, path in packaged_files().items() if path.suffix != ".py"}
    digests = json.loads(run([installed / "python", "-I", "-c", READ_RESOURCES], tmp_path, given=sorted(files)))
    assert digests == {name: _sha256(path) for name, path in files.items()}


def test_installed_entry_points_load(installed: Path, tmp_path: Path) -> None:
    """Every command and plug-in that pyproject.toml registers can be loaded from the installed wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    loaded = json.loads(run([installed / "python", "-I", "-c", LOAD_ENTRY_POINTS], tmp_path))
    assert set(loaded) == {f"{group}:{name}" for group, points in groups.items() for name in points}


def test_installed_command_shows_help(installed: Path, tmp_path: Path) -> None:
    """``kv-autotune --help`` lists its commands."""
    assert "tune" in run([installed / "kv-autotune", "--help"], tmp_path)


def test_installed_command_reads_the_sample_trace(installed: Path, tmp_path: Path) -> None:
    """``kv-autotune trace info`` reads the trace that the wheel carries."""
    info = json.loads(run([installed / "kv-autotune", "trace", "info", "sample:conversation", "--json"], tmp_path))
    assert info


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
