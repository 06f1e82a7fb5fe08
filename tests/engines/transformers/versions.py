"""Run the tests of the streaming cache in the oldest and the newest Transformers that it supports.

``python versions.py ENGINE_PYTHON FOLDER``: the versions are laid over an environment that has torch, each in a folder
of its own, and nothing is installed into it. With the newest come the packages of the search, so that the command
``tune --engine transformers`` runs too. The exit status is that of the first run that failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCKS = Path(__file__).parent / "locks"
TESTS = ("tests/policies/engines/transformers", "tests/cli/test_tune_streaming_command.py")
MARKS = "engine and not slow and not fuzz and not benchmark"


@dataclass(frozen=True, slots=True)
class Overlay:
    """A version to test in.

    Attributes:
        name: Of its folder, and of the version.
        locks: Names of the lock files whose packages it has.
    """

    name: str
    locks: tuple[str, ...]


OVERLAYS = (Overlay("5.0", ("5.0",)), Overlay("5.24", ("5.24", "search")))


def main(arguments: list[str]) -> int:
    """Build what is missing and run the tests in each; the exit status."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    python, folder = arguments[0], Path(arguments[1])
    for overlay in OVERLAYS:
        status = build(python, overlay, folder / overlay.name) or run(python, overlay, folder / overlay.name)
        if status:
            return status
    return 0


def build(python: str, overlay: Overlay, place: Path) -> int:
    """Install an overlay unless it is there with the same locks; the exit status of pip."""
    locks = [LOCKS / f"{name}.lock.txt" for name in overlay.locks]
    wanted = "".join(lock.read_text("utf-8") for lock in locks)
    stamp = place / "locks.txt"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return 0
    shutil.rmtree(place, ignore_errors=True)
    print(f"installing Transformers {overlay.name} into {place}", flush=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-qq", "--no-deps"]
    requirements = [part for lock in locks for part in ("-r", str(lock))]
    status = subprocess.run([*pip, "--target", str(place), *requirements], check=False).returncode
    if status == 0:
        stamp.write_text(wanted, "utf-8")
    return status


def run(python: str, overlay: Overlay, place: Path) -> int:
    """The tests in one overlay; their exit status."""
    print(f"\n== the streaming cache in Transformers {overlay.name}", flush=True)
    paths = os.pathsep.join(filter(None, (str(place.resolve()), os.environ.get("PYTHONPATH", ""))))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "pytest", "-q", "-m", MARKS, *TESTS]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
