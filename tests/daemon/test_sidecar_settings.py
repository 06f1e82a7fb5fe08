from __future__ import annotations

import json
import os
import signal
import typing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import AutotuneError, ConfigError
from autotune.core.settings import Settings, parse_settings
from autotune.core.sidecar_settings import SidecarSettings
from autotune.core.strict_yaml import parse_mapping
from autotune.daemon.settings import (
    OTHER_VARIABLES,
    LiveSettings,
    SettingsSource,
    effective_text,
    setting_names,
    variable_name,
)
from autotune.daemon.status import Mode


def write(folder: Path, text: str) -> Path:
    """A settings file."""
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_observe_on_loopback() -> None:
    """Without any setting nothing is changed anywhere and nobody else can reach the sidecar."""
    settings = SettingsSource().load().sidecar
    assert settings == SidecarSettings()
    assert (settings.mode, settings.http.host, settings.http.allow_remote) == ("observe", "127.0.0.1", False)


def test_modes_are_those_of_the_daemon() -> None:
    """The setting has the words of the modes that exist."""
    assert typing.get_args(SidecarSettings.model_fields["mode"].annotation) == tuple(mode.value for mode in Mode)


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """Each source overrides those after it, setting by setting."""
    path = write(tmp_path, "sidecar: {mode: auto, http: {port: 1}, collect: {interval_s: 1.0}, retune: {trials: 1}}")
    environ = {"KV_AUTOTUNE_HTTP_PORT": "2", "KV_AUTOTUNE_COLLECT_INTERVAL_S": "2", "KV_AUTOTUNE_MODE": "canary"}
    settings = SettingsSource(path, environ, {"http.port": 3, "collect.interval_s": None}).load().sidecar
    assert (settings.http.port, settings.collect.interval_s, settings.mode) == (3, 2.0, "canary")
    assert (settings.retune.trials, settings.collect.timeout_s) == (1, 2.0)


def test_settings_of_the_tuner_may_stand_beside(tmp_path: Path) -> None:
    """One file serves the tuner and the sidecar."""
    path = write(tmp_path, "search: {trials: 7}\nsidecar: {mode: freeze}")
    assert SettingsSource(path).load().sidecar.mode == "freeze"
    assert parse_settings(path.read_text("utf-8")).search.trials == 7


@pytest.mark.parametrize("path", sorted(setting_names()))
def test_every_setting_can_come_from_the_environment(path: str) -> None:
    """Each setting has a variable, and its default comes back through it."""
    default: object = SidecarSettings()
    for part in path.split("."):
        default = getattr(default, part)
    if default is None:
        return
    text = ",".join(default) if isinstance(default, tuple) else str(default).lower()
    assert SettingsSource(environ={variable_name(path): text}).load() == Settings()


def test_names_of_variables_are_distinct() -> None:
    """No two settings share a variable, and none is one of the variables that mean something else."""
    names = [variable_name(path) for path in setting_names()]
    assert len(set(names)) == len(names)
    assert not set(names) & OTHER_VARIABLES


def test_kinds_of_values_in_the_environment() -> None:
    """Numbers, truth, text that looks like a number, and lists by commas are read as what they are."""
    environ = {
        "KV_AUTOTUNE_HTTP_ALLOW_REMOTE": "true",
        "KV_AUTOTUNE_HTTP_HOST": "10",
        "KV_AUTOTUNE_HTTP_ALLOWED_HOSTS": "a.example, b.example,",
        "KV_AUTOTUNE_HTTP_TOKEN_FILE": "/run/secrets/t: 1",
        "KV_AUTOTUNE_RETUNE_CPU_CORES": "0.5",
    }
    settings = SettingsSource(environ=environ).load().sidecar
    assert (settings.http.allow_remote, settings.http.host, settings.retune.cpu_cores) == (True, "10", 0.5)
    assert settings.http.allowed_hosts == ("a.example", "b.example")
    assert settings.http.token_file == "/run/secrets/t: 1"


def test_secrets_and_other_variables_are_no_settings() -> None:
    """Variables with another meaning are left alone, and those of other programs too."""
    assert SettingsSource(environ=dict.fromkeys(OTHER_VARIABLES, "x") | {"PATH": "/bin"}).load() == Settings()


@pytest.mark.parametrize(
    ("text", "environ", "flags", "message"),
    [
        ("sidecar: {htp: {}}", {}, {}, "sidecar.htp is not a known name; got {}; did you mean 'http'?"),
        ("sidecar: {http: {prot: 1}}", {}, {}, "sidecar.http.prot is not a known name; got 1; did you mean 'port'?"),
        ("sidecars: {}", {}, {}, "did you mean 'sidecar'?"),
        ("sidecar: {mode: wild}", {}, {}, "sidecar.mode must be one of 'observe', "),
        ("sidecar: null", {}, {}, "sidecar must be a"),
        ("search: {trials: 0}", {}, {}, "search.trials must be at least 1"),
        ("", {"KV_AUTOTUNE_HTTP_PROT": "1"}, {}, "got KV_AUTOTUNE_HTTP_PROT; did you mean 'KV_AUTOTUNE_HTTP_PORT'?"),
        ("", {"KV_AUTOTUNE_HTTP_PORT": "x"}, {}, "KV_AUTOTUNE_HTTP_PORT: http.port must be a whole number; got 'x'"),
        ("", {"KV_AUTOTUNE_HTTP_PORT": "70000"}, {}, "KV_AUTOTUNE_HTTP_PORT: http.port must be at most 65535"),
        ("", {"KV_AUTOTUNE_RETUNE_TRIALS": "a: ["}, {}, "KV_AUTOTUNE_RETUNE_TRIALS must be one value"),
        ("", {"KV_AUTOTUNE_COLLECT_INTERVAL_S": ".nan"}, {}, "must be"),
        ("", {}, {"http.prot": 1}, "got http.prot; did you mean 'http.port'?"),
        ("", {}, {"mode": "wild"}, "flag for mode: mode must be one of"),
    ],
)
def test_faults_name_where_they_are(
    text: str, environ: dict[str, str], flags: dict[str, object], message: str, tmp_path: Path
) -> None:
    """A fault is one line with the file, the variable or the flag, the rule and the nearest name."""
    path = write(tmp_path, text) if text else None
    with pytest.raises(ConfigError) as caught:
        SettingsSource(path, environ, flags).load()
    assert message in str(caught.value)
    assert not text or str(path) in str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(map(variable_name, setting_names()))), st.text(max_size=12), max_size=4))
def test_any_environment_is_taken_or_refused(environ: dict[str, str]) -> None:
    """Whatever text a variable has, settings come out or one error, never another exception."""
    try:
        SettingsSource(environ=environ).load()
    except ConfigError as error:
        assert "KV_AUTOTUNE_" in str(error)


def test_effective_settings_are_a_settings_file(tmp_path: Path) -> None:
    """What --check-config prints holds every setting of the sidecar and of its loop, and reads back as the same."""
    path = write(tmp_path, "online: {form: fixed_key, fit: {trees: 7}}\nsidecar: {retune: {trials: 3}}")
    settings = SettingsSource(path, {"KV_AUTOTUNE_HTTP_PORT": "1234"}, {"mode": "auto"}).load()
    assert (settings.online.fit.trees, settings.sidecar.retune.trials, settings.sidecar.mode) == (7, 3, "auto")
    text = effective_text(settings)
    assert Settings.model_validate_json(json.dumps(parse_mapping(text, ConfigError))) == settings
    assert list(parse_mapping(text, ConfigError)) == ["online", "sidecar"]


class TestLiveSettings:
    def test_reload_hands_on_what_changed(self, tmp_path: Path) -> None:
        """A changed file reaches the loop once, when the loop asks, and an unchanged one not at all."""
        path = write(tmp_path, "sidecar: {mode: observe}")
        seen: list[Settings] = []
        live = LiveSettings(SettingsSource(path), seen.append)
        write(tmp_path, "sidecar: {mode: auto}")
        assert live.reload_if_asked() is None
        assert (seen, live.current.sidecar.mode) == ([], "observe")
        live.ask()
        assert live.reload_if_asked() is None
        live.ask()
        assert live.reload_if_asked() is None
        assert [settings.sidecar.mode for settings in seen] == ["auto"]
        assert live.current.sidecar.mode == "auto"

    def test_invalid_file_changes_nothing(self, tmp_path: Path) -> None:
        """A file that is not valid, or gone, is one error, and the old settings stay in force."""
        path = write(tmp_path, "sidecar: {mode: recommend}")
        seen: list[Settings] = []
        live = LiveSettings(SettingsSource(path), seen.append)
        write(tmp_path, "sidecar: {mode: auto, retune: {trails: 3}}")
        live.ask()
        error = live.reload_if_asked()
        assert isinstance(error, ConfigError)
        assert "did you mean 'trials'?" in str(error)
        path.unlink()
        assert "must be a readable file" in str(live.reload())
        assert (seen, live.current.sidecar.mode) == ([], "recommend")

    def test_what_needs_a_restart_is_refused(self, tmp_path: Path) -> None:
        """A reload cannot move the server, and says so instead of taking half of the file."""
        path = write(tmp_path, "sidecar: {http: {port: 1}}")
        live = LiveSettings(SettingsSource(path))
        write(tmp_path, "sidecar: {mode: auto, http: {port: 2}}")
        assert "restart the sidecar" in str(live.reload())
        assert live.current.sidecar.mode == "observe"

    def test_what_the_loop_refuses_is_not_in_force(self, tmp_path: Path) -> None:
        """Where the loop cannot take the new settings the old ones stay."""

        def refuse(_settings: Settings) -> None:
            raise AutotuneError("the mode auto needs a policy file")

        path = write(tmp_path, "sidecar: {mode: observe}")
        live = LiveSettings(SettingsSource(path), refuse)
        write(tmp_path, "sidecar: {mode: auto}")
        assert "needs a policy file" in str(live.reload())
        assert live.current.sidecar.mode == "observe"

    def test_hangup_asks_for_a_reload(self, tmp_path: Path) -> None:
        """SIGHUP reloads between two rounds."""
        path = write(tmp_path, "sidecar: {mode: observe}")
        live = LiveSettings(SettingsSource(path))
        before = signal.getsignal(signal.SIGHUP)
        try:
            live.listen()
            write(tmp_path, "sidecar: {mode: freeze}")
            os.kill(os.getpid(), signal.SIGHUP)
            assert live.current.sidecar.mode == "observe"
            assert live.reload_if_asked() is None
        finally:
            signal.signal(signal.SIGHUP, before)
        assert live.current == Settings(sidecar=SidecarSettings(mode="freeze"))
