from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from showcase import ScriptedController, busy_status
from typer.testing import CliRunner

from autotune.cli.app import app
from autotune.core.errors import ConfigError
from autotune.core.settings import Settings
from autotune.core.sidecar_settings import HttpSettings, SidecarSettings
from autotune.daemon.bundle import BundleSource, Contents, write_bundle
from autotune.daemon.http.server import HttpServer
from autotune.daemon.redact import REMOVED, Redactor, known_secrets
from autotune.testing.clocks import ManualClock

SECRET = "s3cr3t-of-the-house"
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8, max_size=24)


def members(path: Path) -> dict[str, bytes]:
    """Names and contents of a bundle."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.removeprefix("kv-autotune-support/")] = file.read()
    return found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with what a sidecar leaves in one, and some that it should not."""
    folder = tmp_path / "state"
    recording = folder / "recording"
    recording.mkdir(parents=True)
    (folder / "audit.jsonl").write_text(
        f'{{"reason": "asked with Bearer {SECRET}"}}\n{{"url": "http://me:{SECRET}@10.0.0.1:8000/metrics?key={SECRET}"}}\n'
    )
    (folder / "checkpoint.json").write_text('{"mode": "auto"}\n')
    (folder / "confirmed.yaml").write_text("costs:\n  prefill_s_per_token: 6.1e-05\n  kv_bytes_per_token: 131072\n")
    (folder / "token").write_text(SECRET + "\n")
    (folder / "address").write_text("http://127.0.0.1:8765\n")
    (folder / "prompts.txt").write_text("what a user asked\n")
    (recording / "manifest.json").write_text("{}\n")
    for number in range(3):
        segment = recording / f"epoch-0001-seg-{number:04}.parquet"
        segment.write_bytes(bytes([number]) * 1000)
        os.utime(segment, (1000 + number, 1000 + number))
    (recording / "notes.txt").write_text("what a user asked\n")
    (folder / "candidate.yaml").symlink_to("/etc/passwd")
    return folder


def source(state: Path, **changes: object) -> BundleSource:
    """What a bundle of the folder is made of."""
    given = {"settings": Settings(), "environ": {}, "extra": {}, "max_recording_bytes": 10_000} | changes
    return BundleSource(state=state, **given)  # type: ignore[arg-type]


def test_bundle_holds_what_helps(state: Path, tmp_path: Path) -> None:
    """Settings, audit log, checkpoint, policies and recording are in it, each as the list of contents says."""
    out = tmp_path / "out.tar.gz"
    contents = write_bundle(source(state), out, Redactor([SECRET]), ManualClock())
    found = members(out)
    assert set(found) == {
        "contents.json",
        "settings.yaml",
        "state/audit.jsonl",
        "state/checkpoint.json",
        "state/confirmed.yaml",
        "recording/manifest.json",
        *(f"recording/epoch-0001-seg-{number:04}.parquet" for number in range(3)),
    }
    assert Contents.model_validate_json(found["contents.json"]) == contents
    for entry in contents.files:
        data = found[entry.name]
        assert (entry.size_bytes, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert {"kv-autotune", "python", "numpy", "pydantic"} <= set(contents.versions)


def test_bundle_holds_no_secret_and_no_text(state: Path, tmp_path: Path) -> None:
    """Neither the token nor a password, neither the prompts of users nor files that links lead to are in it."""
    out = tmp_path / "out.tar.gz"
    environ = {"KV_AUTOTUNE_HTTP_TOKEN": SECRET, "KV_AUTOTUNE_MODE": "auto", "HOME": "/root"}
    contents = write_bundle(source(state, environ=environ), out, Redactor(known_secrets(environ, [])), ManualClock())
    everything = b"".join(members(out).values())
    assert SECRET.encode() not in everything
    assert b"what a user asked" not in everything
    assert b"root:x:0" not in everything
    assert contents.variables == ("KV_AUTOTUNE_HTTP_TOKEN", "KV_AUTOTUNE_MODE")
    assert {line.split(" (")[0] for line in contents.left_out} == {
        "address",
        "candidate.yaml",
        "prompts.txt",
        "recording/notes.txt",
        "token",
    }


def test_figures_stay(state: Path, tmp_path: Path) -> None:
    """Costs per token are no tokens: policies stay what they are."""
    write_bundle(source(state), tmp_path / "out.tar.gz", Redactor([SECRET]), ManualClock())
    text = members(tmp_path / "out.tar.gz")["state/confirmed.yaml"]
    assert yaml.safe_load(text) == yaml.safe_load((state / "confirmed.yaml").read_text())


def test_newest_segments_come_first(state: Path, tmp_path: Path) -> None:
    """What is recent is in it; what no longer fits is named, and with no room there is no recording at all."""
    contents = write_bundle(source(state, max_recording_bytes=2100), tmp_path / "a.tar.gz", Redactor(), ManualClock())
    names = {entry.name for entry in contents.files if entry.name.endswith(".parquet")}
    assert names == {"recording/epoch-0001-seg-0001.parquet", "recording/epoch-0001-seg-0002.parquet"}
    assert any(line.startswith("recording/epoch-0001-seg-0000.parquet") for line in contents.left_out)
    none = write_bundle(source(state, max_recording_bytes=0), tmp_path / "b.tar.gz", Redactor(), ManualClock())
    assert not [entry for entry in none.files if entry.name.startswith("recording/")]


def test_bundle_is_for_its_maker_alone(state: Path, tmp_path: Path) -> None:
    """Nobody else may read the file."""
    out = tmp_path / "out.tar.gz"
    write_bundle(source(state), out, Redactor(), ManualClock())
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_long_log_is_cut_at_a_line(state: Path, tmp_path: Path) -> None:
    """Of a log that is too long the newest whole lines are in it."""
    lines = [json.dumps({"number": number, "reason": "x" * 1000}) for number in range(6000)]
    (state / "audit.jsonl").write_text("\n".join(lines) + "\n")
    write_bundle(source(state), tmp_path / "out.tar.gz", Redactor(), ManualClock())
    kept = members(tmp_path / "out.tar.gz")["state/audit.jsonl"].decode().splitlines()
    assert len(kept) > 3000
    assert kept == lines[-len(kept) :]


def test_missing_folder_and_unwritable_place_are_one_line(state: Path, tmp_path: Path) -> None:
    """What cannot be done is an error with the remedy."""
    with pytest.raises(ConfigError, match="--state"):
        write_bundle(source(tmp_path / "none"), tmp_path / "out.tar.gz", Redactor(), ManualClock())
    with pytest.raises(ConfigError, match="--out"):
        write_bundle(source(state), tmp_path / "none" / "out.tar.gz", Redactor(), ManualClock())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://user:pass@host/x", f"http://{REMOVED}@host/x"),
        ("https://host/metrics?api_key=abc&x=1 next", f"https://host/metrics?{REMOVED} next"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REMOVED}"),
        ("basic dXNlcjpwYXNz", f"basic {REMOVED}"),
        ("api_key: abc", f"api_key: {REMOVED}"),
        ('"password": "a b\\"c"', f'"password": "{REMOVED}"'),
        ("x-auth-token=abc;next", f"x-auth-token={REMOVED};next"),
        ("token: null", "token: null"),
        ('{"kv_bytes_per_token": 131072}', '{"kv_bytes_per_token": 131072}'),
        ("max_tokens: 5, depth_tokens=6", "max_tokens: 5, depth_tokens=6"),
        ("nothing here", "nothing here"),
    ],
)
def test_redaction_by_hand(text: str, expected: str) -> None:
    """What looks like a secret goes, and figures stay."""
    assert Redactor()(text) == expected


@given(st.lists(WORDS, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=8), st.text(max_size=10))
def test_known_secrets_never_stay(secrets: list[str], order: list[int], between: str) -> None:
    """Wherever known secrets stand, alone or one in another, none is left."""
    text = between.join(secrets[number % len(secrets)] for number in order)
    cleaned = Redactor(secrets)(text)
    assert not [secret for secret in secrets if secret in cleaned.replace(REMOVED, "")]


@given(st.dictionaries(st.sampled_from(["api_key", "password", "auth-token", "client_secret"]), WORDS, min_size=1))
def test_secrets_in_json_and_yaml_go(tree: dict[str, str]) -> None:
    """Values of names that say so go from JSON and YAML, which stay readable."""
    redact = Redactor()
    assert set(json.loads(redact(json.dumps(tree))).values()) == {REMOVED}
    cleaned = redact(yaml.safe_dump(tree))
    assert not [secret for secret in tree.values() if secret in cleaned]


def test_command_writes_what_it_lists(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the token of the folder by itself and adds what a running sidecar shows."""
    monkeypatch.setenv("KV_AUTOTUNE_HTTP_PORT", "18420")
    out = tmp_path / "out.tar.gz"
    (state / "audit.jsonl").write_text(f'{{"reason": "somebody pasted {SECRET}"}}\n')
    settings = SidecarSettings(http=HttpSettings(port=0))
    with HttpServer(ScriptedController(busy_status()), settings, {}) as server:
        arguments = ["support-bundle", "--state", str(state), "--out", str(out), "--url", server.url, "--json"]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    found = members(out)
    assert json.loads(result.stdout)["files"] == json.loads(found["contents.json"])["files"]
    assert json.loads(found["status.json"])["group"] == "chat-production"
    assert b"port: 18420" in found["settings.yaml"]
    assert SECRET.encode() not in b"".join(found.values())


def test_command_without_a_folder_is_one_line(tmp_path: Path) -> None:
    """A folder that is not there is one line and exit code 2, and nothing is written."""
    out = tmp_path / "out.tar.gz"
    result = CliRunner().invoke(app, ["support-bundle", "--state", str(tmp_path / "none"), "--out", str(out)])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert not out.exists()
