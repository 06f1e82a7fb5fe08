from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune_policies.engines.live.settings import VLLM_KEYS, EngineSettings
from autotune_policies.engines.live.targets import TargetKind


def settings(mapping: dict[str, object], **environ: str) -> EngineSettings:
    """The settings in a mapping, under this environment and no other."""
    return EngineSettings.from_extra_config(mapping, environ)


def test_nothing_set_means_stock_lru_and_no_output() -> None:
    """Without any key of ours, no policy file, telemetry, log or simulated link is set."""
    assert settings({"cpu_bytes_to_use": 10**9, "spec_name": "AutotuneOffloadingSpec"}) == EngineSettings()


def test_every_key_is_read_in_its_unit() -> None:
    """Each key of ours arrives in the inner unit: bytes, seconds, absolute paths."""
    read = settings(
        {
            "policy_file": "/etc/policy.yaml",
            "telemetry": "file:/var/records",
            "telemetry_max_bytes": 2**25,
            "decision_log": Path("/var/log/decisions.jsonl"),
            "decision_log_sample_frac": 0.5,
            "decision_log_max_bytes": 2**20,
            "simulated_link_gb_per_s": 2,
            "simulated_link_latency_ms": 1.5,
        }
    )
    assert read.policy_file == Path("/etc/policy.yaml")
    assert read.telemetry is not None
    assert (read.telemetry.kind, read.telemetry.path) == (TargetKind.FILE, Path("/var/records"))
    assert (read.telemetry_max_bytes, read.decision_log_max_bytes) == (2**25, 2**20)
    assert (read.decision_log, read.decision_log_sample_frac) == (Path("/var/log/decisions.jsonl"), 0.5)
    assert (read.simulated_link_bytes_per_s, read.simulated_link_latency_s) == (2e9, 0.0015)


def test_the_environment_names_the_policy_where_the_configuration_does_not() -> None:
    """KV_AUTOTUNE_POLICY counts only where policy_file is absent or null; empty means unset."""
    variable = "/from/environment.yaml"
    assert settings({}, KV_AUTOTUNE_POLICY=variable).policy_file == Path(variable)
    assert settings({"policy_file": None}, KV_AUTOTUNE_POLICY=variable).policy_file == Path(variable)
    assert settings({"policy_file": "/a.yaml"}, KV_AUTOTUNE_POLICY=variable).policy_file == Path("/a.yaml")
    assert settings({}, KV_AUTOTUNE_POLICY="").policy_file is None


def test_a_relative_path_is_made_absolute_and_its_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that names the policy is not resolved at start, so that switching it is noticed."""
    (tmp_path / "policy.yaml").symlink_to("elsewhere.yaml")
    monkeypatch.chdir(tmp_path)
    assert settings({"policy_file": "policy.yaml"}).policy_file == tmp_path / "policy.yaml"


@pytest.mark.parametrize(
    "key",
    [
        "policy-file",
        "Policy_File",
        "policyfile",
        "policy_files",
        "policy_file_path",
        "telemetry_dir",
        "telemetry_max_byte",
        "decision_logs",
        "decision_log_sample",
        "decision_log_of_everything_there_is",
        "simulated_link_gbps",
        "simulated_link_latency_s",
    ],
)
def test_a_name_like_ours_is_refused_with_the_known_ones(key: str) -> None:
    """A misspelt key of ours is an error that lists the right names, never silently ignored."""
    with pytest.raises(ConfigError, match=r"not a known name.*known:.*policy_file"):
        settings({key: "x"})


def test_keys_of_the_engine_and_strangers_are_left_alone() -> None:
    """Neither the engine's own keys nor ones that resemble nothing of ours are looked at."""
    assert settings({**dict.fromkeys(VLLM_KEYS, object()), "my_plugin": object()}) == EngineSettings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("policy_file", ""),
        ("policy_file", 3),
        ("policy_file", ["a"]),
        ("telemetry", "udp://127.0.0.1:1"),
        ("telemetry_max_bytes", 1),
        ("telemetry_max_bytes", True),
        ("decision_log_sample_frac", 0.0),
        ("decision_log_sample_frac", float("nan")),
        ("decision_log_sample_frac", "0.5"),
        ("simulated_link_gb_per_s", 0),
        ("simulated_link_latency_ms", -1),
    ],
)
def test_a_wrong_value_is_refused(key: str, value: object) -> None:
    """Wrong types and numbers out of range are errors that name the key."""
    with pytest.raises(ConfigError, match=key):
        settings({key: value})


@given(st.dictionaries(st.text(max_size=30), st.none() | st.booleans() | st.integers() | st.floats() | st.text()))
def test_any_mapping_gives_settings_or_our_error(mapping: dict[str, object]) -> None:
    """Whatever the mapping holds, the answer is settings or a ConfigError, no other exception."""
    try:
        assert isinstance(settings(mapping), EngineSettings)
    except ConfigError as error:
        assert str(error)


def test_ranks_share_the_policy_and_write_apart() -> None:
    """Data-parallel engines read one policy file, and each has a log and a telemetry target of its own."""
    base = settings({"policy_file": "/p.yaml", "telemetry": "tcp://127.0.0.1:5600", "decision_log": "/d.jsonl"})
    assert base.for_rank(0) is base
    second = base.for_rank(1)
    assert second.policy_file == base.policy_file
    assert second.decision_log == Path("/d.jsonl.rank-1")
    assert second.telemetry is not None
    assert second.telemetry.endpoint == "tcp://127.0.0.1:5601"
    assert EngineSettings().for_rank(3) == EngineSettings()
