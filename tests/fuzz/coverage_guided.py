"""Coverage-guided search for inputs that crash a reader: pages of metrics, KV events, policies, traces.

    python tests/fuzz/coverage_guided.py TARGET [--runs 20000] [--seed 1]

It needs atheris (libFuzzer for Python). The search begins with real inputs of the tests and goes where code is reached
that was not reached before. An input counts as a crash where it raises anything but the reader's own error, or takes
ten seconds. libFuzzer then prints it and the exit status is not 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["autotune", "autotune_collectors"]):
    from autotune.core.errors import AutotuneError, PolicyError, TraceError
    from autotune.core.policy import parse
    from autotune.core.telemetry.reading import FrameReader
    from autotune.core.trace import Trace
    from autotune_collectors.kv_events.wire import EventDecoder, EventError
    from autotune_collectors.prometheus import read_page

DATA = Path(__file__).parents[1] / "data"
FORMATS = ("mooncake", "azure", "token-ids", "libcachesim-csv", "lmcache-agent", "kv-cache-tester")
_MAX_BYTES, _SLOW_S = 2_000, 10


def metrics(data: bytes) -> None:
    """A page of metrics ends in a snapshot or in an error of ours."""
    try:
        read_page(data, target="fuzz", at_s=1.0)
    except AutotuneError:
        return


def events(data: bytes) -> None:
    """A message of KV events is decoded or refused."""
    try:
        EventDecoder().decode(data)
    except EventError:
        return


def telemetry(data: bytes) -> None:
    """A frame of telemetry is read or refused."""
    try:
        FrameReader().read(data)
    except TraceError:
        return


def policy(data: bytes) -> None:
    """A text is a policy or is refused."""
    try:
        parse(data.decode("utf-8", "replace"))
    except PolicyError:
        return


def trace(data: bytes) -> None:
    """A file is a trace or is refused; its first byte says of which format."""
    name = FORMATS[data[0] % len(FORMATS)] if data else FORMATS[0]
    file = Path(_SCRATCH.name) / "t"
    file.write_bytes(data[1:])
    try:
        Trace.open(f"{name}:{file}", on_error="skip" if data[:1] > b"\x7f" else "fail")
    except TraceError:
        return


TARGETS: dict[str, tuple[Callable[[bytes], None], str]] = {
    "metrics": (metrics, "metrics/*.prom"),
    "events": (events, "kv_events/*.bin"),
    "telemetry": (telemetry, "telemetry/*"),
    "policy": (policy, "policies/*"),
    "trace": (trace, "traces/**/*"),
}
_SCRATCH = tempfile.TemporaryDirectory()


def beginnings(pattern: str, folder: Path) -> None:
    """Pieces of real inputs to begin with."""
    for number, path in enumerate(sorted(each for each in DATA.glob(pattern) if each.is_file())):
        content = path.read_bytes()
        for place in range(0, min(len(content), 10 * _MAX_BYTES), _MAX_BYTES):
            (folder / f"{number}-{place}").write_bytes(content[place : place + _MAX_BYTES])


def main() -> None:
    """Search with one target; libFuzzer ends the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    check, pattern = TARGETS[given.target]
    corpus = Path(_SCRATCH.name) / "corpus"
    corpus.mkdir()
    beginnings(pattern, corpus)
    limits = [f"-runs={given.runs}", f"-seed={given.seed}", f"-max_len={_MAX_BYTES}", f"-timeout={_SLOW_S}"]
    artifacts = f"-artifact_prefix={tempfile.gettempdir()}/"
    atheris.Setup([sys.argv[0], *limits, artifacts, "-verbosity=0", "-print_final_stats=1", str(corpus)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
