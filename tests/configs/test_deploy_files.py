"""The unit, the container file and the compose file: nobody is root, nothing is writable, and every command exists."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from autotune.cli.app import app
from autotune.daemon.settings import SettingsSource

FOLDER = Path(str(files("autotune_configs") / "deploy"))
UNIT = (FOLDER / "kv-autotune.service").read_text("utf-8")
CONTAINER = (FOLDER / "Containerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
ANALYZE = [path for path in [shutil.which("systemd-analyze")] if path]
COMMANDS = typer.main.get_command(app)


def parse(arguments: list[str]) -> None:
    """Parse a command line of kv-autotune without running it; unknown commands and options fail."""
    name, *rest = arguments
    command = COMMANDS.get_command(typer.Context(COMMANDS), name)  # type: ignore[attr-defined]
    assert command is not None, name
    command.make_context(name, rest)


def unit(section: str) -> dict[str, list[str]]:
    """Directives of a section of the unit, each with all its values."""
    found: dict[str, list[str]] = {}
    text = UNIT.partition(f"[{section}]\n")[2].partition("\n[")[0]
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def instructions() -> list[tuple[str, str]]:
    """Instructions of the container file in order."""
    lines = re.sub(r"\\\n\s*", "", CONTAINER).splitlines()
    return [(line.split()[0], line.partition(" ")[2]) for line in lines if line and not line.startswith("#")]


def test_unit_is_not_root_and_writes_nowhere() -> None:
    """A user of its own without capabilities, a read-only system, and one folder to write to."""
    service = unit("Service")
    for name in (
        "LockPersonality",
        "NoNewPrivileges",
        "PrivateDevices",
        "PrivateTmp",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHome",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
    ):
        assert service[name] == ["yes"], name
    assert service["User"] == service["Group"] == ["kv-autotune"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == [""]
    assert service["StateDirectory"] == ["kv-autotune"]
    assert "ReadWritePaths" not in service


@pytest.mark.parametrize("directive", ["ExecStart", "ExecStartPre"])
def test_unit_starts_what_exists(directive: str) -> None:
    """The command lines are ones that kv-autotune takes, and all they write is in the state directory."""
    (line,) = unit("Service")[directive]
    program, *arguments = shlex.split(line)
    assert program == "/opt/kv-autotune/bin/kv-autotune"
    parse(arguments)
    for option in {"--state", "--policy"} & set(arguments):
        assert arguments[arguments.index(option) + 1].startswith("/var/lib/kv-autotune/")


def test_unit_sets_settings_that_exist() -> None:
    """Variables of the sidecar are settings, reload is SIGHUP, and the token is a credential, not in the unit."""
    service = unit("Service")
    environ = dict(value.split("=", 1) for value in service["Environment"])
    assert SettingsSource(environ=environ).load().sidecar.http.token_file == "%d/http-token"
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert service["LoadCredential"] == ["http-token:/etc/kv-autotune/http-token"]


@pytest.mark.parametrize("analyze", ANALYZE)
def test_unit_is_valid_and_little_exposed(analyze: str, tmp_path: Path) -> None:
    """Systemd takes the unit without a word and finds it well closed, where it is installed."""
    path = tmp_path / "kv-autotune.service"
    path.write_text(UNIT.replace("/opt/kv-autotune/bin/kv-autotune", "/bin/true"), encoding="utf-8")
    done = subprocess.run([analyze, "verify", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    security = subprocess.run(
        [analyze, "security", "--offline=true", path], capture_output=True, text=True, check=False
    )
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", security.stdout)
    assert exposure is None or float(exposure[1]) < 2.0


def test_container_is_not_root() -> None:
    """The image runs as a number other than 0, since a name cannot be checked to be none, and keeps no build tools."""
    steps = instructions()
    last_stage = steps[max(index for index, (name, _) in enumerate(steps) if name == "FROM") :]
    (user,) = [value for name, value in last_stage if name == "USER"]
    assert user == "65532:65532"
    names = [name for name, _ in last_stage]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert not [value for name, value in steps if name == "ADD" or "curl" in value]
    assert all("pip" not in value for _, value in last_stage)


def test_container_runs_what_exists() -> None:
    """Entry point and command together are a command line that kv-autotune takes."""
    steps = dict(instructions())
    entry, *arguments = json.loads(steps["ENTRYPOINT"]) + json.loads(steps["CMD"])
    assert entry == "kv-autotune"
    parse(arguments)
    assert "/healthz" in steps["HEALTHCHECK"]


def test_all_that_is_written_lies_in_the_state() -> None:
    """Locks, compiled code and state go to the one place that can be written, in the unit and in the container."""
    set_in_unit = dict(value.split("=", 1) for value in unit("Service")["Environment"])
    set_in_image = dict(pair.split("=", 1) for pair in dict(instructions())["ENV"].split())
    for environ in (set_in_unit, set_in_image):
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
            assert environ[name].startswith("/var/lib/kv-autotune")


def test_compose_closes_the_sidecar() -> None:
    """The sidecar is nobody, writes to its volume and a tmpfs only, and cannot become more."""
    sidecar = COMPOSE["services"]["sidecar"]
    assert sidecar["user"] == "65532:65532"
    assert sidecar["read_only"] is True
    assert sidecar["cap_drop"] == ["ALL"]
    assert sidecar["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "devices", "ports"} & set(sidecar)
    assert sidecar["volumes"] == ["policy:/var/lib/kv-autotune"]
    assert COMPOSE["services"]["engine"]["volumes"] == ["policy:/var/lib/kv-autotune:ro"]


def test_compose_runs_what_exists() -> None:
    """The command is one that kv-autotune takes, the variables are settings, and ports are open to this machine."""
    sidecar, engine = COMPOSE["services"]["sidecar"], COMPOSE["services"]["engine"]
    parse(sidecar["command"])
    settings = SettingsSource(environ=sidecar["environment"]).load().sidecar
    assert settings.mode == "observe"
    assert settings.http.token_file == "/run/secrets/http-token"
    assert all(port.startswith("127.0.0.1:") for port in engine["ports"])
    written = sidecar["command"][sidecar["command"].index("--policy") + 1]
    assert engine["environment"]["KV_AUTOTUNE_POLICY"] == written
    assert (FOLDER / sidecar["build"]["context"] / sidecar["build"]["dockerfile"]).resolve() == (
        FOLDER / "Containerfile"
    ).resolve()


@pytest.mark.parametrize("name", ["kv-autotune.service", "Containerfile", "compose.yaml"])
def test_no_secret_is_written_down(name: str) -> None:
    """No file has a token, a key or a password in it, only where one is found."""
    text = (FOLDER / name).read_text("utf-8")
    assert not re.search(r"(?i)(token|password|api_key)\s*[:=]\s*[A-Za-z0-9+/]{12,}", text)
