"""``kv-autotune explain``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autotune.cli.app import app
from autotune.core.policy import LruDocument, PolicyDocument, Prices, explain
from autotune.export import save
from autotune.testing.documents import (
    example_budgeted_document,
    example_document,
    example_fixed_key_document,
    example_learned_document,
    example_priced_document,
)

BLOCK = ("--depth-tokens", "4096", "--frequency", "2", "--age-s", "60")


def run(*arguments: str | Path) -> Result:
    """The command with these arguments."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["explain", *map(str, arguments)])


def run_json(*arguments: str | Path) -> Any:
    """The object that the command prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def written(document: PolicyDocument, folder: Path) -> Path:
    """The file that holds a document."""
    save(document, folder / "policy.yaml")
    return folder / "policy.yaml"


def with_prices(device_s_per_byte: float | None, host_s_per_byte: float | None) -> PolicyDocument:
    """The example document at other prices."""
    prices = {"device_s_per_byte": device_s_per_byte, "host_s_per_byte": host_s_per_byte}
    document = example_document()
    return document.model_copy(update={"prices": document.prices.model_copy(update=prices)})


def without_host() -> LruDocument:
    """LRU on the device alone, with nothing measured."""
    document = example_document()
    return LruDocument(
        fingerprint=document.fingerprint,
        budgets=document.budgets.model_copy(update={"host_bytes": 0}),
        costs=document.costs,
    )


def cells(result: Result) -> dict[str, list[str]]:
    """Rows of the table: label and cells."""
    rows = [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()]
    return {label: figures for label, *figures in rows}


def test_figures_are_those_of_the_core(tmp_path: Path) -> None:
    """The object has every figure of the explanation, tiers and decision by name."""
    told = run_json(written(example_document(), tmp_path), *BLOCK)
    expected = explain(example_document(), depth_tokens=4096, frequency=2.0, age_s=60.0, size_tokens=512)
    for name in ("size_bytes", "recompute_s", "load_s", "value_device_s", "value_host_s", "reuse_probability"):
        assert told[name] == getattr(expected, name)
    assert told["decision"] == expected.decision.value
    assert [rank["tier"] for rank in told["ranks"]] == ["device", "host"]
    assert told["ranks"][1]["rank_s"] == expected.ranks[1].rank_s
    assert told["break_even_tokens"] == expected.break_even_tokens


@pytest.mark.parametrize(
    ("device", "host", "decision"), [(0.0, 0.0, "KEEP"), (1e-9, 0.0, "OFFLOAD"), (1e-9, 1e-9, "EVICT")]
)
def test_decision_is_named_first(device: float, host: float, decision: str, tmp_path: Path) -> None:
    """Each decision is said in a sentence of its own, with its reason."""
    result = run(written(with_prices(device, host), tmp_path), *BLOCK)
    assert result.exit_code == 0
    assert f"\n{decision}: " in result.stdout


def test_table_has_value_price_and_rank(tmp_path: Path) -> None:
    """Value less price adds up on both tiers, and the parts of a rank add up to it."""
    result = run(written(with_prices(1e-10, 1e-10), tmp_path), *BLOCK)
    rows = cells(result)
    assert result.stdout.startswith("A block of 512 tokens (64 MiB) behind 4,096 tokens of prompt, asked for 2 times,")
    assert rows["price of its room"] == ["6.71 ms", "6.71 ms"]
    assert rows["who leaves first"] == ["oldest use", "smallest rank"]
    parts = [rows[name][1] for name in ("last use", "frequency's part", "cost's part", "rank")]
    last, frequency, cost, rank = (float(part.removesuffix(" s").replace("−", "-").replace(",", "")) for part in parts)
    assert last == -60.0
    assert rank == pytest.approx(last + frequency + cost, abs=0.2)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_price_that_was_not_measured_is_said(tmp_path: Path) -> None:
    """A null price is shown as not measured, null in the object, and the assumption in its place is stated."""
    policy = written(with_prices(None, 1e-10), tmp_path)
    result = run(policy, *BLOCK)
    assert cells(result)["price of its room"] == ["not measured", "6.71 ms"]
    assert "Assumed: the price of the device was not measured" in result.stdout
    told = run_json(policy, *BLOCK)
    assert (told["device_price_s_per_byte"], told["host_price_s_per_byte"]) == (None, 1e-10)


def test_without_a_host_there_is_one_column(tmp_path: Path) -> None:
    """No load is spoken of, the value on the host is null, and what was assumed is listed."""
    policy = written(without_host(), tmp_path)
    result = run(policy, *BLOCK)
    assert "host" not in result.stdout.splitlines()[2]
    assert "There is no host tier" in result.stdout
    told = run_json(policy, *BLOCK)
    assert told["value_host_s"] is None
    assert len(told["assumptions"]) == 2
    assert len(told["ranks"]) == 1


def test_size_changes_what_is_explained(tmp_path: Path) -> None:
    """``--size-tokens`` replaces the trace's block size."""
    told = run_json(written(example_document(), tmp_path), *BLOCK, "--size-tokens", "16")
    assert told["size_bytes"] == 16 * 131_072


def test_break_even_in_words(tmp_path: Path) -> None:
    """A load that never pays, one that pays from some length on, and one that always does are told apart."""
    document = example_document()
    texts = []
    for bandwidth, latency_s in ((1.0, 0.0), (5e10, 0.01), (5e10, 0.0)):
        costs = document.costs.model_copy(update={"load_bytes_per_s": bandwidth, "load_latency_s": latency_s})
        texts.append(run(written(document.model_copy(update={"costs": costs}), tmp_path), *BLOCK).stdout)
    assert "a load never pays" in texts[0]
    assert "a load pays for runs of" in texts[1]
    assert "a load pays from the first token on" in texts[2]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--frequency", "0.5"),
        ("--frequency", "nan"),
        ("--age-s", "-1"),
        ("--depth-tokens", "-1"),
        ("--size-tokens", "0"),
    ],
)
def test_impossible_block_is_refused(option: str, value: str, tmp_path: Path) -> None:
    """A block that cannot exist gives one line and exit status 2."""
    result = run(written(with_prices(1e-10, Prices().host_s_per_byte), tmp_path), *BLOCK, option, value)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


LEARNED = (
    "--depth-tokens",
    "8192",
    "--frequency",
    "3",
    "--age-s",
    "20",
    "--feature",
    "gap_s=10",
    "--feature",
    "stop_code=2",
)


def test_learned_policy_is_explained_in_one_line(tmp_path: Path) -> None:
    """Sum of the tables, probabilities, class, curve, rank, prices and decision stand in one line, parts in a table."""
    result = run(written(example_learned_document(), tmp_path), *LEARNED)
    assert result.exit_code == 0, result.stderr
    line = next(line for line in result.stdout.splitlines() if "near score" in line)
    assert line.startswith(
        "OFFLOAD: near score +1.25 = −1.00 average +1.00 gap_s +0.75 stop_code×gap_s +0.50 depth_tok"
    )
    steps = [
        "P 0.777 within 60 s",
        "far score +1.25",
        "class 15",
        "hazard",
        "from now",
        "rank device",
        "prices 3e-10 and",
    ]
    assert [step for step in steps if step not in line] == []
    rows = cells(result)
    assert rows["stop_code × gap_s"] == ["+0.75"]
    assert rows["score"] == ["+1.25", "+1.25"]
    assert rows["who leaves first"] == ["saves least", "saves least"]


def test_prices_of_ranks_are_shown_and_decide(tmp_path: Path) -> None:
    """Rank and price of each tier stand in one line, in the table, in the reason, in the object and in the picture."""
    policy = written(example_priced_document(), tmp_path)
    result = run(policy, *LEARNED, "--plot", tmp_path / "block.svg")
    assert result.exit_code == 0, result.stderr
    line = next(line for line in result.stdout.splitlines() if "near score" in line)
    assert line.startswith("KEEP: near score")
    assert line.endswith("prices device 400 µs saved per s, host 200 µs saved per s")
    assert cells(result)["price of its room"] == ["400 µs saved per s", "200 µs saved per s"]
    assert "value less price" not in result.stdout
    assert "KEEP: on the device it ranks at least as high as the next to leave." in result.stdout
    assert "price 400" in (tmp_path / "block.svg").read_text("utf-8")
    ranks = run_json(policy, *LEARNED)["learned"]["ranks"]
    assert [rank["price_s_per_s"] for rank in ranks] == [4e-4, 2e-4]


def test_prices_of_keys_are_shown_and_decide(tmp_path: Path) -> None:
    """Key and price of each tier stand in one line, in the table, in the reason, in the object and in the picture."""
    policy = written(example_fixed_key_document(), tmp_path)
    result = run(policy, *LEARNED, "--plot", tmp_path / "block.svg")
    assert result.exit_code == 0, result.stderr
    line = next(line for line in result.stdout.splitlines() if "near score" in line)
    assert line.startswith("KEEP: near score") and line.endswith("prices device −600 s, host −3,600 s")
    assert cells(result)["price of its room"] == ["−600 s", "−3,600 s"]
    assert "KEEP: on the device it ranks at least as high as the next to leave." in result.stdout
    assert "device: the next to leave has −600 s" in (tmp_path / "block.svg").read_text("utf-8")
    learned = run_json(policy, *LEARNED)["learned"]
    assert learned["ranks"] == []
    assert [(each["tier"], each["price_s"]) for each in learned["key"]["tiers"]] == [
        ("device", -600.0),
        ("host", -3600.0),
    ]


def test_reason_names_both_tiers_where_a_block_goes(tmp_path: Path) -> None:
    """An old block ranks below both prices, and the reason says so of both tiers."""
    old = [*LEARNED[:5], "4000", *LEARNED[6:]]
    words = " ".join(run(written(example_priced_document(), tmp_path), *old).stdout.split())
    low = "it ranks below the next to leave"
    assert f"EVICT: on the device {low}, on the host {low}." in words


def test_learned_object_has_the_parts(tmp_path: Path) -> None:
    """The object has the parts of both scores, the class, the ranks and the line."""
    told = run_json(written(example_learned_document(), tmp_path), *LEARNED)
    learned = told["learned"]
    assert learned["block_class"] == 15
    assert learned["near"]["parts"][0] == {"features": ["gap_s"], "log_odds": 1.0}
    assert [rank["tier"] for rank in learned["ranks"]] == ["device", "host"]
    assert learned["line"].startswith("OFFLOAD: near score")
    assert told["ranks"] == []
    assert told["host_write"] is None
    budgeted = run_json(written(example_budgeted_document(), tmp_path), *LEARNED)
    assert budgeted["host_write"] == {"bytes_per_s": 2e9, "burst_s": 60.0}
    assert run_json(written(example_document(), tmp_path), *BLOCK)["learned"] is None


def test_learned_policy_is_drawn(tmp_path: Path) -> None:
    """``--plot`` writes the picture; a policy without a model has none."""
    result = run(written(example_learned_document(), tmp_path), *LEARNED, "--plot", tmp_path / "block.svg")
    assert result.exit_code == 0, result.stderr
    assert "class 15 among all 16" in (tmp_path / "block.svg").read_text("utf-8")
    result = run(written(example_document(), tmp_path), *BLOCK, "--plot", tmp_path / "other.svg")
    assert result.exit_code != 0
    assert "a picture shows a learned model; got a policy of kind 'rank'" in result.stderr
    assert not (tmp_path / "other.svg").exists()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("gap_s",), "a feature is given as NAME=VALUE with a number; got gap_s"),
        (("gap_s=soon",), "a feature is given as NAME=VALUE with a number; got gap_s=soon"),
        (("gap_s=1", "gap_s=2"), "a feature is given once; got gap_s twice"),
        (("gap=1",), "did you mean 'gap_s'"),
    ],
)
def test_features_must_be_well_formed(features: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """A feature that cannot be read is one line with the rule and what came."""
    options = [part for feature in features for part in ("--feature", feature)]
    result = run(written(example_learned_document(), tmp_path), *BLOCK, *options)
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.split())
