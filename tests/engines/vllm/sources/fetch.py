"""Fetch the Python sources of vLLM versions, so that the plug-in can be run against them without a GPU.

A wheel of vLLM is about 300 MB, nearly all of it compiled for GPUs. Each is downloaded once, checked by pip against the
hash in ``wheels.txt``, and thrown away but for its Python files and metadata (about 50 MB):

    python tests/engines/vllm/sources/fetch.py .vllm-sources
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path, PurePosixPath

WHEELS = Path(__file__).with_name("wheels.txt")
_PIN = re.compile(r"vllm==(?P<version>[\w.]+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")
_STAMP = ".sha256"
_ATTEMPTS = 3
_PAUSE_S = 10.0
_PLATFORM = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--only-binary", ":all:")


def pins() -> dict[str, str]:
    """SHA-256 of the wheel by version, in the order of ``wheels.txt``.

    Raises:
        ValueError: a line is no pin.
    """
    found = {}
    for line in WHEELS.read_text().splitlines():
        pin = _PIN.fullmatch(line.strip())
        if pin is not None:
            found[pin["version"]] = pin["sha256"]
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"a line of {WHEELS} reads 'vllm==VERSION --hash=sha256:HASH'; got {line!r}")
    return found


def is_complete(folder: Path, sha256: str) -> bool:
    """Whether a version's folder holds everything of the wheel with this hash."""
    stamp = folder / _STAMP
    return stamp.is_file() and stamp.read_text() == sha256


def fetch(version: str, sha256: str, into: Path) -> None:
    """Download one wheel and keep its sources in ``into / version``.

    Raises:
        subprocess.CalledProcessError: pip could not download it, or its hash differs.
    """
    with tempfile.TemporaryDirectory(dir=into, prefix=".wheel-") as temporary:
        wheel = _download(version, sha256, Path(temporary))
        sources = Path(temporary) / "sources"
        _unpack(wheel, sources)
        (sources / _STAMP).write_text(sha256)
        shutil.rmtree(into / version, ignore_errors=True)
        sources.rename(into / version)


def _download(version: str, sha256: str, folder: Path) -> Path:
    pinned = folder / "pinned.txt"
    pinned.write_text(f"vllm=={version} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--quiet"]
    command += ["download", "--no-deps", "--require-hashes", *_PLATFORM, "--dest", str(folder), "-r", str(pinned)]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            subprocess.run(command, check=True)
            break
        except subprocess.CalledProcessError:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_S * attempt)
    return next(folder.glob("*.whl"))


def _unpack(wheel: Path, into: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into, [name for name in archive.namelist() if _is_kept(PurePosixPath(name))])


def _is_kept(name: PurePosixPath) -> bool:
    top = name.parts[0]
    return (top == "vllm" and name.suffix == ".py") or (top.endswith(".dist-info") and name.name != "RECORD")


def main(arguments: list[str]) -> None:
    """Fetch every pinned version that the folder lacks."""
    into = Path(arguments[0])
    into.mkdir(parents=True, exist_ok=True)
    for version, sha256 in pins().items():
        if not is_complete(into / version, sha256):
            print(f"sources of vLLM {version}: downloading its wheel, about 300 MB", flush=True)
            fetch(version, sha256, into)


if __name__ == "__main__":
    main(sys.argv[1:])
