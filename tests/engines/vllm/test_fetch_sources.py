from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

_SCRIPT = Path(__file__).parent / "sources" / "fetch.py"


@pytest.fixture
def fetch() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("fetch_vllm_sources", _SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_version_is_pinned_by_hash(fetch: ModuleType) -> None:
    """The versions that the plug-in is run against have a hash of 64 digits each."""
    pins = fetch.pins()
    assert list(pins) == ["0.24.0", "0.28.0", "0.33.0"]
    assert len(set(pins.values())) == len(pins)


def test_a_line_that_is_no_pin_is_refused(fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version without its hash would be downloaded unchecked."""
    wheels = tmp_path / "wheels.txt"
    wheels.write_text("vllm==0.24.0\n")
    monkeypatch.setattr(fetch, "WHEELS", wheels)
    with pytest.raises(ValueError, match=r"got 'vllm==0\.24\.0'"):
        fetch.pins()


def test_only_python_and_metadata_are_kept(fetch: ModuleType, tmp_path: Path) -> None:
    """Compiled parts, and folders that are not vLLM's, stay in the wheel."""
    wheel = tmp_path / "vllm.whl"
    names = ["vllm/__init__.py", "vllm/v1/a.py", "vllm/_C.so", "other/b.py", "vllm-1.dist-info/METADATA"]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*names, "vllm-1.dist-info/RECORD"]:
            archive.writestr(name, name)
    fetch._unpack(wheel, tmp_path / "kept")
    kept = {str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    assert kept == {"vllm/__init__.py", "vllm/v1/a.py", "vllm-1.dist-info/METADATA"}


def test_a_folder_is_complete_only_with_the_hash_of_its_wheel(fetch: ModuleType, tmp_path: Path) -> None:
    """A folder that was cut short, or is of another wheel, is fetched again."""
    assert not fetch.is_complete(tmp_path, "a" * 64)
    (tmp_path / ".sha256").write_text("a" * 64)
    assert fetch.is_complete(tmp_path, "a" * 64)
    assert not fetch.is_complete(tmp_path, "b" * 64)
