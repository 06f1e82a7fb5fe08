"""Compiled twins of the policies, for the simulator; loaded only through the entry point ``autotune.kernels``.

Numba reuses a compiled caller even after a kernel that it inlines was edited. So the cache directory is named after a
hash of every source that may end up inside a compiled function, before the first of them is compiled.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numba
from numba.core import config as numba_config

_SOURCES = (
    "autotune.core.state",
    "autotune.core.hazard_layout",
    "autotune.core.history",
    "autotune.core.decide",
    "autotune.core.reuse",
    "autotune.sim",
    "autotune_policies.kernels",
)


def _source_files() -> list[Path]:
    files: list[Path] = []
    for name in _SOURCES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        files += sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]
    return files


def _cache_directory() -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    for file in _source_files():
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kv-autotune"
    try:
        root.mkdir(parents=True, exist_ok=True)
        writable = os.access(root, os.W_OK)
    except OSError:
        writable = False
    if not writable:  # a read-only home: compile anew in each process rather than fail
        root = Path(tempfile.mkdtemp(prefix="kv-autotune-numba-"))
    return root / f"numba-{digest.hexdigest()[:16]}"


numba_config.CACHE_DIR = str(_cache_directory())  # type: ignore[attr-defined]
