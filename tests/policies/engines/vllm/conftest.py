"""The real engine, one for all tests of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_model
from engine_pool import EnginePool

_Factory = pytest.TempPathFactory


@pytest.fixture(scope="session")
def engine_pool(tmp_path_factory: _Factory) -> Iterator[EnginePool]:
    """Runs scenarios on the real engine, each once."""
    pool = EnginePool(tmp_path_factory.mktemp("engine"))
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: _Factory) -> str:
    """Folder of a tiny Llama."""
    return _built(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="session")
def tiny_hybrid(tmp_path_factory: _Factory) -> str:
    """Folder of a tiny model with sliding windows and full attention."""
    return _built(tmp_path_factory.mktemp("hybrid"), "hybrid")


def _built(folder: Path, shape: str) -> str:
    # In a process of its own: building starts threads, and this process runs for long.
    subprocess.run([sys.executable, tiny_model.__file__, shape, str(folder)], check=True, capture_output=True)
    return str(folder)
