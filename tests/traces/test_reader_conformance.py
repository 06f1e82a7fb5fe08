"""Every reader that comes with the package against the contract of readers."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from autotune.core.trace import Trace
from autotune.testing.traces import TraceReaderConformance
from autotune.traces.recording import write_recording

DATA = Path(__file__).parents[1] / "data" / "traces"


class TestMooncake(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """Two files of one namespace, the second going on where the first ends."""
        rows = [
            {"timestamp": 7000, "input_length": 1025, "output_length": 3, "hash_ids": [9, -4, 5]},
            {"timestamp": 7000, "input_length": 512, "output_length": 1, "hash_ids": [9]},
            {"timestamp": 8000, "input_length": 0, "output_length": 0, "hash_ids": []},
        ]
        (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        rows[0]["timestamp"] = 9000
        (folder / "b.jsonl").write_text(json.dumps(rows[0]))
        return f"mooncake:{folder}/*.jsonl"


class TestKvCacheTester(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """A session with subagents."""
        return f"kv-cache-tester:{DATA}/kv-cache-tester/trace_0291.json.gz"


class TestMergedKvCacheTester(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """Three sessions in one stream."""
        return f"kv-cache-tester:{DATA}/kv-cache-tester/*.json.gz"

    def options(self) -> dict[str, Any]:
        """An explicit merge."""
        return {"merge_span_s": 600, "seed": 1, "block_tokens": 512}


class TestLmcacheAgent(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """Rows of three kinds of agents, not in order of time."""
        return f"lmcache-agent:{DATA}/lmcache-agent/*.jsonl.gz"


class TestAdversarial(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """A small trace that needs no file."""
        return "adversarial:loops,seed=3,loops=2,rounds=2"


class TestAzure(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """The beginning of the conversation service's trace."""
        return f"azure:{DATA}/azure/AzureLLMInferenceTrace_conv.first300.csv.gz"


class TestServegen(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """One client, trace and lengths."""
        return f"servegen:{DATA}/servegen/*.gz"

    def options(self) -> dict[str, Any]:
        """Two minutes of it."""
        return {"seed": 3, "duration_s": 120.0}


class TestLibcachesimCsv(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """Four requests for three objects."""
        (folder / "t.csv").write_text("time,id,size\n0.5,a,1\n0.5,b,10\n1,a,1\n17.25,18446744073709551616,3\n")
        return f"libcachesim-csv:{folder}/t.csv"


class TestTokenIds(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """Two prompts with a common beginning."""
        rows = [
            {"arrival_time_ns": 5, "input_tok_ids": list(range(40)), "output_toks": 2},
            {"arrival_time_ns": 9, "input_tok_ids": [*range(16), *range(99, 80, -1)], "output_toks": 2},
        ]
        (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return f"token-ids:{folder}/t.jsonl"


class TestRecording(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """A recording of a session."""
        write_recording(Trace.open(f"kv-cache-tester:{DATA}/kv-cache-tester/trace_0504.json.gz"), folder / "t.parquet")
        return f"recording:{folder}/t.parquet"


class TestSample(TraceReaderConformance):
    def make_source(self, folder: Path) -> str:
        """The smaller of the bundled traces."""
        return "sample:synthetic"


def test_every_registered_reader_is_tested() -> None:
    """A reader registered by this project has a class above."""
    registered = {
        point.name for point in entry_points(group="autotune.traces") if point.value.startswith("autotune.traces.")
    }
    tested = {
        "adversarial",
        "azure",
        "kv-cache-tester",
        "libcachesim-csv",
        "lmcache-agent",
        "mooncake",
        "recording",
        "sample",
        "servegen",
        "token-ids",
    }
    assert registered == tested
