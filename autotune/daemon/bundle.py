"""The support bundle: what helps to find a fault from afar, and nothing that must not leave the machine.

Only files that are known by name go in, and text goes through :class:`autotune.daemon.redact.Redactor`. The recording
holds hashes and figures. What was left out is named in the list of contents, so that nobody has to guess.
"""

from __future__ import annotations

import hashlib
import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from pydantic import AwareDatetime, Field

from autotune.core.clock import Clock
from autotune.core.errors import ConfigError
from autotune.core.files import replaced_atomically
from autotune.core.settings import Settings
from autotune.core.units import MIB
from autotune.core.validation import Strict
from autotune.daemon.redact import Redactor
from autotune.daemon.settings import PREFIX, effective_text

_FOLDER = "kv-autotune-support"
_TEXT_FILES = frozenset(
    {
        "audit.jsonl",
        "candidate.yaml",
        "checkpoint.json",
        "confirmed.yaml",
        "previous.yaml",
        "recommended.txt",
        "recommended.yaml",
    }
)
_RECORDING = "recording"
_RECORDING_SUFFIXES = frozenset({".journal", ".parquet"})
_MAX_TEXT_BYTES = 4 * MIB
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")


class Entry(Strict):
    """One file of the bundle."""

    name: str = Field(description="Its name in the bundle.")
    size_bytes: int = Field(description="Its size.")
    sha256: str = Field(description="Hash of its content.")


class Contents(Strict):
    """What is in the bundle, and what is not."""

    made_at: AwareDatetime = Field(description="When it was made, in UTC.")
    versions: dict[str, str] = Field(description="Versions of what takes part.")
    variables: tuple[str, ...] = Field(description="Names of the sidecar's environment variables that are set.")
    files: tuple[Entry, ...] = Field(description="Files, with their hashes.")
    left_out: tuple[str, ...] = Field(description="Files of the state folder that are not in it, and why.")


@dataclass(frozen=True, slots=True)
class BundleSource:
    """What a bundle is made of.

    Attributes:
        state: State folder of a sidecar.
        settings: Settings in force.
        environ: Environment, of which names go in, never values.
        extra: Further texts by name, such as the status of a sidecar that runs.
        max_recording_bytes: Most bytes of the recording, newest segments first; 0 = none.
    """

    state: Path
    settings: Settings
    environ: Mapping[str, str]
    extra: Mapping[str, str]
    max_recording_bytes: int


def write_bundle(source: BundleSource, out: Path, redact: Redactor, clock: Clock) -> Contents:
    """Write a ``.tar.gz`` for this user alone.

    Raises:
        ConfigError: there is no state folder, or the file cannot be written; an old one is untouched then.
    """
    if not source.state.is_dir():
        raise ConfigError(
            "a support bundle is made from a state folder", got=str(source.state), remedy="give it with --state"
        )
    left_out: list[str] = []
    files = dict(sorted(_files(source, redact, left_out)))
    contents = Contents(
        made_at=clock.utc_now(),
        versions=versions(),
        variables=tuple(sorted(name for name in source.environ if name.startswith(PREFIX))),
        files=tuple(
            Entry(name=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
            for name, data in files.items()
        ),
        left_out=tuple(sorted(redact(line) for line in left_out)),
    )
    files = {"contents.json": contents.model_dump_json(indent=2).encode("utf-8") + b"\n"} | files
    try:
        with replaced_atomically(out) as file:
            _write_tar(files, file, int(contents.made_at.timestamp()))
        out.chmod(0o600)
    except OSError as problem:
        reason = problem.strerror or problem
        raise ConfigError(f"{out} must be writable", got=reason, remedy="give another with --out") from problem
    return contents


def versions() -> dict[str, str]:
    """Versions of Python, the platform, kv-autotune and the packages that it names, as far as installed."""
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    for name in ("kv-autotune", *(_required())):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed here
    return dict(sorted(found.items()))


def _required() -> list[str]:
    try:
        lines = requires("kv-autotune") or []
    except PackageNotFoundError:
        return []
    used = [line for line in lines if not line.endswith('extra == "dev"')]
    return sorted({found[0] for line in used if (found := _PACKAGE.match(line))})


def _files(source: BundleSource, redact: Redactor, left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    yield "settings.yaml", redact(effective_text(source.settings)).encode("utf-8")
    for name, text in source.extra.items():
        yield name, redact(text).encode("utf-8")
    for path in sorted(source.state.iterdir()):
        if path.name == _RECORDING and path.is_dir() and not path.is_symlink():
            yield from _recording(path, source.max_recording_bytes, left_out)
        elif path.name in _TEXT_FILES and _is_plain(path):
            yield f"state/{path.name}", redact(_tail(path)).encode("utf-8")
        else:
            left_out.append(f"{path.name} (not one of the files that a bundle holds)")


def _recording(folder: Path, max_bytes: int, left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    """The manifest, and the newest segments that fit."""
    left_bytes = max_bytes
    found = sorted((p for p in folder.rglob("*") if _is_plain(p)), key=lambda p: (p.stat().st_mtime, p.name))
    for path in reversed(found):
        name = f"{_RECORDING}/{path.relative_to(folder)}"
        if path.name != "manifest.json" and path.suffix not in _RECORDING_SUFFIXES:
            left_out.append(f"{name} (not one of the files that a bundle holds)")
            continue
        data = path.read_bytes()
        if len(data) > left_bytes:
            left_out.append(f"{name} (larger than what is left for the recording)")
            continue
        left_bytes -= len(data)
        yield name, data


def _is_plain(path: Path) -> bool:
    """Whether a path is a file of its own: a link may lead anywhere."""
    try:
        return S_ISREG(path.lstat().st_mode)
    except OSError:
        return False  # gone meanwhile, as segments do


def _tail(path: Path) -> str:
    """The end of a text file, from the beginning of a line."""
    with path.open("rb") as file:
        size_bytes = file.seek(0, io.SEEK_END)
        file.seek(max(0, size_bytes - _MAX_TEXT_BYTES))
        data = file.read(_MAX_TEXT_BYTES)
    if size_bytes > _MAX_TEXT_BYTES:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def _write_tar(files: Mapping[str, bytes], file: BinaryIO, at_s: int) -> None:
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{_FOLDER}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), at_s, 0o600
            archive.addfile(entry, io.BytesIO(data))
