"""The state folder: what a sidecar must find again after it was killed at any moment."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from autotune.core.errors import ConfigError, PolicyError
from autotune.core.files import write_atomically
from autotune.core.policy import PolicyDocument, load
from autotune.core.validation import Strict
from autotune.daemon.audit import AuditLog
from autotune.daemon.locks import state_home
from autotune.daemon.status import Mode
from autotune.export import save


class Checkpoint(Strict):
    """What is not in the audit log and not in a policy file."""

    version: int = Field(default=1, ge=1, le=1, description="Of this format.")
    mode: Mode = Field(description="Mode that was asked for last.")
    trips: int = Field(default=0, ge=0, description="How often the guard found something.")
    rollbacks: int = Field(default=0, ge=0, description="How often a policy was taken back.")
    last_reason: str | None = Field(default=None, description="Why the guard tripped last.")
    last_tuned_at: AwareDatetime | None = Field(default=None, description="When the last search ended, in UTC.")
    last_tune_seconds: float | None = Field(default=None, description="What it took.")
    last_change_at: AwareDatetime | None = Field(default=None, description="When a policy was last changed, in UTC.")
    engine: str | None = Field(default=None, description="What the engine was, to tell another one.")
    rejected: tuple[str, ...] = Field(default=(), description="Policies that a trial sent back, newest last.")
    gap_counts: tuple[float, ...] = Field(default=(), description="Reuse gaps that the last search saw, by bin.")
    prompt_counts: tuple[float, ...] = Field(default=(), description="Lengths of prompts that it saw, by bin.")


class StateFolder:
    """Files of one sidecar.

    Args:
        path: The folder; made if it is not there, for this user alone.

    Raises:
        ConfigError: it cannot be made, or its log cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise ConfigError(
                f"{path} must be a folder that can be made and written to",
                got=problem.strerror or problem,
                remedy="give another with --state",
            ) from problem
        self.audit = AuditLog(path / "audit.jsonl")

    @property
    def recording(self) -> Path:
        """Folder of the rolling recording."""
        return self.path / "recording"

    @property
    def work(self) -> Path:
        """Folder in which a search leaves its result."""
        return self.path / "work"

    @property
    def recommended(self) -> Path:
        """The policy that is recommended."""
        return self.path / "recommended.yaml"

    @property
    def confirmed_path(self) -> Path:
        """The policy that holds whenever nothing is on trial."""
        return self.path / "confirmed.yaml"

    @property
    def previous_path(self) -> Path:
        """The policy that was confirmed before."""
        return self.path / "previous.yaml"

    @property
    def candidate_path(self) -> Path:
        """Where people put a policy of their own that a trial should judge."""
        return self.path / "candidate.yaml"

    def confirmed(self) -> PolicyDocument | None:
        """The confirmed policy; ``None`` = none was ever published or found.

        Raises:
            PolicyError: there is a file that is none.
        """
        return load(self.confirmed_path) if self.confirmed_path.exists() else None

    def confirm(self, document: PolicyDocument) -> None:
        """Say which policy holds from now on.

        Raises:
            PolicyError: it cannot be written; the old one stays.
        """
        save(document, self.confirmed_path)

    def forget_confirmed(self) -> None:
        """Forget which policy holds, and what is recommended."""
        for path in (self.confirmed_path, self.recommended, self.previous_path):
            path.unlink(missing_ok=True)

    def write_note(self, reason: str, changes: Iterable[str]) -> None:
        """Write beside the recommendation why it is recommended and what it changes.

        Raises:
            ConfigError: it cannot be written.
        """
        text = "\n".join([reason, "", *(changes or ("(no policy was confirmed before)",))]) + "\n"
        try:
            write_atomically(self.path / "recommended.txt", text)
        except OSError as problem:
            raise ConfigError(f"{self.path} must be writable", got=problem.strerror or problem) from problem

    def load_checkpoint(self) -> Checkpoint | None:
        """The last checkpoint; ``None`` = none, or one that another version wrote."""
        try:
            return Checkpoint.model_validate_json((self.path / "checkpoint.json").read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, all of it or nothing.

        Raises:
            ConfigError: it cannot be written; the old one stays.
        """
        try:
            write_atomically(self.path / "checkpoint.json", checkpoint.model_dump_json(indent=1) + "\n")
        except OSError as problem:
            raise ConfigError(f"{self.path} must be writable", got=problem.strerror or problem) from problem

    def token(self) -> str:
        """The secret that whoever may read this folder can steer the sidecar with; made once.

        Raises:
            ConfigError: it cannot be made or read.
        """
        path = self.path / "token"
        try:
            if not path.exists():
                path.touch(0o600)
                write_atomically(path, secrets.token_urlsafe(32) + "\n")
            return path.read_text("ascii").strip()
        except OSError as problem:
            raise ConfigError(f"{path} must be writable", got=problem.strerror or problem) from problem


def default_state_folder(urls: Iterable[str]) -> Path:
    """Folder of the targets' group where none is given, the same for the same targets in any order."""
    digest = hashlib.sha256("\n".join(sorted(urls)).encode("utf-8")).hexdigest()
    return state_home() / digest[:16]


def load_policy(path: Path) -> PolicyDocument | None:
    """A policy that may be missing or damaged, where neither matters."""
    try:
        return load(path) if path.exists() else None
    except PolicyError:
        return None
