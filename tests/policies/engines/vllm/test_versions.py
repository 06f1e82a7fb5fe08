"""The plug-in against the sources of several versions of vLLM, each in a process of its own, without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from version_replay import ReplayCase

from autotune.core import policy
from autotune.core.types import Admission
from autotune.export.document import render
from autotune.testing.documents import example_document

pytestmark = pytest.mark.engine("vllm")

INSTALLED = "0.32.0"
OTHERS = ("0.24.0", "0.28.0", "0.33.0")
EARLY = ("0.24.0", "0.28.0")
HERE = Path(__file__).parent
ROOT = HERE.parents[3]
SOURCES = Path(os.environ.get("VLLM_SOURCES") or ROOT / ".vllm-sources").absolute()
RUNNER_TIMEOUT_S = 600
KV_BYTES_PER_TOKEN = 2048  # of the model below: 4 layers x 4 heads x 32 x 2 (keys, values) x 2 bytes
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16",
}

Outcome = dict[str, Any]


def _with_sources(*versions: str) -> list[Any]:
    return [pytest.param(version, marks=pytest.mark.engine_sources(version)) for version in versions]


every_version = pytest.mark.parametrize("version", [INSTALLED, *_with_sources(*OTHERS)])
other_version = pytest.mark.parametrize("version", _with_sources(*OTHERS))
early_version = pytest.mark.parametrize("version", _with_sources(*EARLY))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What every version that is at hand did with the same requests."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "config.json").write_text(json.dumps(MODEL))
    cases = [asdict(case) for case in _cases(folder)]
    versions = [INSTALLED, *(version for version in OTHERS if (SOURCES / version).is_dir())]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(versions, pool.map(lambda version: _run(version, folder, cases), versions), strict=True))


def _run(version: str, model: Path, cases: list[dict[str, Any]]) -> Outcome:
    roots = [os.environ.get("PYTHONPATH", "")]
    if version != INSTALLED:
        roots.insert(0, str(SOURCES / version))
    # Policies come from the orders alone; nothing is looked up on the network.
    environment = {name: value for name, value in os.environ.items() if name != "KV_AUTOTUNE_POLICY"} | {
        "PYTHONPATH": os.pathsep.join(filter(None, roots)),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "version_runner.py")],
        input=json.dumps(
            {"cases": cases, "model": str(model), "changes": version == INSTALLED, "life_cycles": version != INSTALLED}
        ),
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUNNER_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"vLLM {version}: {done.stderr[-4000:]}")
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


def _cases(folder: Path) -> list[ReplayCase]:
    lru = _policy(folder / "lru.yaml", 1.0, Admission.ALL)
    cases = [ReplayCase("ours lru", policy_file=lru), ReplayCase("stock lru", manager="stock")]
    for admission in Admission:
        ranked = _policy(folder / f"{admission.value}.yaml", 0.25, admission)
        name = f"ours {admission.value}"
        cases += [
            ReplayCase(name, policy_file=ranked),
            ReplayCase(f"{name}, stores apart", policy_file=ranked, joins_in_flight=False),
            ReplayCase(f"{name}, ends early", policy_file=ranked, ends_early=True),
            ReplayCase(f"{name}, reset", policy_file=ranked, reset_at_step=300),
            ReplayCase(f"{name}, no room", policy_file=ranked, capacity=24),
        ]
    cases.append(ReplayCase("plain lru", manager="plain", policy_file=lru))
    cases.append(ReplayCase("plain rank", manager="plain", policy_file=str(folder / "all.yaml")))
    return cases


def _policy(path: Path, lambda_recency: float, admission: Admission) -> str:
    ordinary = example_document()
    fingerprint = ordinary.fingerprint.model_copy(update={"model": "tiny", "kv_bytes_per_token": KV_BYTES_PER_TOKEN})
    host = policy.StoredTier(policy="rank", admission=admission)
    knobs = policy.RankKnobs(lambda_recency=lambda_recency, tau_turnovers=2.0, turnover_s=10.0, cost_weight=0.5)
    document = ordinary.model_copy(
        update={
            "fingerprint": fingerprint,
            "tiers": ordinary.tiers.model_copy(update={"host": host}),
            "rank": policy.RankSection(host=knobs),
            "costs": ordinary.costs.model_copy(update={"kv_bytes_per_token": KV_BYTES_PER_TOKEN}),
        }
    )
    path.write_text(render(document))
    return str(path)


def _log(outcomes: dict[str, Outcome], version: str, case: str) -> list[str]:
    log: list[str] = outcomes[version]["logs"][case]["log"]
    return log


def _found_chunks(log: list[str]) -> int:
    """Chunks that lookups found, over all requests."""
    words = [line.split() for line in log]
    return sum(int(line[2]) for line in words if line[1] == "finds" and line[2] != "no")


def _our_cases(outcomes: dict[str, Outcome]) -> list[str]:
    return [case for case in outcomes[INSTALLED]["logs"] if case.startswith("ours")]


def test_the_requests_bring_everything_about(outcomes: dict[str, Outcome]) -> None:
    """Hits, evictions, chunks in flight, refusals, a full pool and a reset all happen, so equal logs say something."""
    logs = {case: "\n".join(_log(outcomes, INSTALLED, case)) for case in _our_cases(outcomes)}
    assert _found_chunks(_log(outcomes, INSTALLED, "ours all")) > 1000
    assert logs["ours all"].count(" for [") - logs["ours all"].count(" for []") > 100
    assert "then pending" in logs["ours all"]
    assert "stores []" in logs["ours marginal"]
    assert "finds no room" in logs["ours all, no room"]
    assert "\nreset\n" in logs["ours all, reset"]
    assert len({logs[case] for case in logs}) == len(logs)


@every_version
def test_the_version_is_the_one_that_was_asked_for(outcomes: dict[str, Outcome], version: str) -> None:
    """Otherwise the other tests would compare a version with itself."""
    assert outcomes[version]["version"].partition("+")[0] == version


@other_version
def test_our_manager_decides_the_same(outcomes: dict[str, Outcome], version: str) -> None:
    """Lookups, stores, victims, refusals and residents are those of the installed version, key by key."""
    for case in _our_cases(outcomes):
        assert _log(outcomes, version, case) == _log(outcomes, INSTALLED, case), case


@every_version
def test_nothing_is_lost_and_nothing_fails(outcomes: dict[str, Outcome], version: str) -> None:
    """After all copies, residents and free places make up the pool, and no fallback was needed."""
    for case in (one for one in outcomes[version]["logs"] if not one.startswith("stock")):
        books = outcomes[version]["logs"][case]
        capacity = 24 if case.endswith("no room") else 96
        assert books["residents"] + books["free_chunks"] == capacity, case
        assert (books["faults"], books["rules"]) == (0, "rank"), case


def test_recency_alone_is_the_engines_own_lru(outcomes: dict[str, Outcome]) -> None:
    """At λ = 1 our manager and our plain policy decide like vLLM 0.32 with its own LRU, key by key."""
    stock = _log(outcomes, INSTALLED, "stock lru")
    assert _log(outcomes, INSTALLED, "ours lru") == stock
    assert _log(outcomes, INSTALLED, "plain lru") == stock


@other_version
def test_lru_of_other_versions_is_another(outcomes: dict[str, Outcome], version: str) -> None:
    """What vLLM calls LRU depends on the version, as docs/compatibility.md says; ours is that of 0.32 everywhere."""
    assert _log(outcomes, version, "stock lru") != _log(outcomes, version, "ours lru")


@pytest.mark.engine_sources("0.33.0")
def test_the_plain_policy_decides_the_same_where_requests_end_with_a_list(outcomes: dict[str, Outcome]) -> None:
    """From 0.31 on a cache policy is told all it needs."""
    for case in ("plain lru", "plain rank"):
        assert _log(outcomes, "0.33.0", case) == _log(outcomes, INSTALLED, case), case


@early_version
def test_the_plain_policy_knows_less_in_early_versions(outcomes: dict[str, Outcome], version: str) -> None:
    """With touches alone the order is another, the same in both early versions, and finds less than it does later."""
    early = _log(outcomes, version, "plain rank")
    assert _found_chunks(early) < _found_chunks(_log(outcomes, INSTALLED, "plain rank"))
    known = [_log(outcomes, other, "plain rank") for other in EARLY if other in outcomes]
    assert all(log == early for log in known)


@every_version
def test_the_table_in_the_docs_is_what_the_check_says(outcomes: dict[str, Outcome], version: str) -> None:
    """docs/compatibility.md lists the features that are on, version by version."""
    assert _documented(version) == set(outcomes[version]["features"])


def _documented(version: str) -> set[str]:
    lines = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    column = rows[0].index(version.rpartition(".")[0])
    beside = {"plain cache policy", "served in the tests"}
    return {row[0] for row in rows[1:] if row[0] not in beside and row[column] == "yes"}


@every_version
def test_short_names_lead_to_the_plug_in(outcomes: dict[str, Outcome], version: str) -> None:
    """After registering twice, vLLM's own factories find the specs, the connector and the cache policy."""
    home = "autotune_policies.engines.vllm"
    assert outcomes[version]["names"] == {
        "AutotuneOffloadingSpec": f"{home}.spec",
        "AutotuneTieringOffloadingSpec": f"{home}.spec",
        "AutotuneConnector": f"{home}.connector",
    }
    ways = {"short name"} if version == "0.24.0" else {"short name", "module path"}
    assert outcomes[version]["policy"] == dict.fromkeys(ways, "AutotuneCachePolicy")


@every_version
@pytest.mark.parametrize(
    ("part", "manager"), [("host", "AutotuneOffloadingManager"), ("tiering", "AutotunePrimaryTier")]
)
def test_a_configuration_becomes_a_connector(
    outcomes: dict[str, Outcome], version: str, part: str, manager: str
) -> None:
    """A complete configuration with our names gives our connector and our manager, whole and at work."""
    built = outcomes[version][part]
    assert (built["connector"], built["manager"]) == ("AutotuneConnector", manager)
    assert (built["is_stock"], built["faults"]) == (False, 0)
    assert built["free_chunks"] == 256
    assert any(name.startswith("kv_autotune") for name in built["metrics"])
    assert any(name.startswith("vllm:") for name in built["metrics"])


@other_version
def test_the_connector_keeps_every_block_whole(outcomes: dict[str, Outcome], version: str) -> None:
    """Through that version's own scheduler no request ever relied on a wrong block, with every part of ours at work."""
    runs = outcomes[version]["life_cycles"]
    assert len(runs) > 10
    for name, run in runs.items():
        assert not run["is_stock"], name
        assert run["loads"] + run["loads_refused"] > 0, name
        assert run["stores"] > 0, name
        assert run["keeps"] == ("keep" in name), name
        assert (run["lazy_stores"] > 0) == ("lazy" in name and name.startswith("small")), name  # else eager, and said


def test_an_unknown_version_costs_only_what_does_not_fit(outcomes: dict[str, Outcome]) -> None:
    """Of a vLLM that nobody has seen, parts whose interfaces fit are used, and the others are named one by one."""
    changed = outcomes[INSTALLED]["changed"]
    everything = set(outcomes[INSTALLED]["features"])
    off = {what: everything - set(found["features"]) for what, found in changed.items()}
    assert off == {
        "nothing": set(),
        "an argument more": {"policy", "manager", "tiering", "lazy store"},
        "arguments renamed": {"lazy store"},
        "an abstract method more": {"worker"},
    }
    assert changed["nothing"]["message"].startswith("vLLM 0.99.0 (not tested; ")
    assert "CachePolicy.evict is (n, protected, deadline_s)" in changed["an argument more"]["message"]
