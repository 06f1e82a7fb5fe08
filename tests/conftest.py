"""What a plain run of the tests leaves out, and the lines that say so."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Machines differ in speed, so no example has a deadline; an automatic build must not fail by luck of the draw.
settings.register_profile("tests", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("fuzz", deadline=None, derandomize=False, max_examples=2_000)
settings.load_profile("tests")

_OWN_TARGET = {"slow": "make test-slow", "fuzz": "make fuzz", "benchmark": "make bench", "browser": "make test-browser"}
# 'make test' names the environment in which it runs the tests of engines after these.
_WHERE_ENGINES_ARE = (
    f"run next, in {os.environ['ENGINE_TESTS_NEXT']}"
    if os.environ.get("ENGINE_TESTS_NEXT")
    else "which this environment lacks"
)
_SOURCES = Path(os.environ.get("VLLM_SOURCES") or Path(__file__).parents[1] / ".vllm-sources")
_PARSERS = Path(os.environ.get("ENGINE_PARSERS") or Path(__file__).parents[1] / ".venv-parsers")
_SIDECAR = Path(os.environ.get("SIDECAR_PYTHON") or Path(__file__).parents[1] / ".venv/bin/python")
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests unless ``-m`` asks for some, and tests of engines that are not installed."""
    marks_chosen = bool(config.option.markexpr)
    reasons = {item.nodeid: reason for item in items if (reason := next(_reasons(item, marks_chosen), None))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in reasons])
    items[:] = [item for item in items if item.nodeid not in reasons]
    config.stash[_LEFT_OUT] = Counter(reasons.values())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out and how to run it."""
    left_out = config.stash.get(_LEFT_OUT, Counter())
    if left_out:
        terminalreporter.section("left out")
    for reason, count in sorted(left_out.items()):
        terminalreporter.line(f"{count} {'test' if count == 1 else 'tests'}: {reason}")


def _reasons(item: pytest.Item, marks_chosen: bool) -> Iterator[str]:
    for mark in item.iter_markers("engine"):
        missing = [module for module in mark.args if find_spec(module) is None]
        if missing:
            yield f"need {', '.join(missing)}, {_WHERE_ENGINES_ARE}"
    for mark in item.iter_markers("engine_sources"):
        missing = [version for version in mark.args if not (_SOURCES / version).is_dir()]
        if missing:
            yield f"need the sources of vLLM {', '.join(missing)}, see 'make vllm-sources'"
    for mark in item.iter_markers("parser"):
        missing = [engine for engine in mark.args if not (_PARSERS / engine / ".stamp").is_file()]
        if missing:
            yield f"need the parser of {', '.join(missing)}, see 'make engine-parsers'"
    if item.get_closest_marker("sidecar_environment") and not _SIDECAR.is_file():
        yield "need the environment of the sidecar beside the engine's, see 'make test'"
    if not marks_chosen:
        yield from (f"{mark}, see '{target}'" for mark, target in _OWN_TARGET.items() if item.get_closest_marker(mark))
