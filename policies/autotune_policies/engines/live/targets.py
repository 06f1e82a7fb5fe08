"""Where telemetry records go: a ZMQ endpoint or a folder of files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from autotune.core.errors import ConfigError

_TCP = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/\s]+):(?P<port>[0-9]{1,5})")
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|\[::1\]")
_REMEDY = "write 'tcp://127.0.0.1:PORT', 'ipc:///path/of/socket' or 'file:/path/of/folder'"
_MAX_PORT = 65_535
_MAX_SOCKET_PATH = 100  # a Unix socket's path has at most 107 bytes on Linux; the rank's number must still fit


class TargetKind(StrEnum):
    """How records leave the engine."""

    TCP = "tcp"
    IPC = "ipc"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class TelemetryTarget:
    """One place for records; read it with :meth:`parse`.

    Attributes:
        kind: How they leave.
        host: Address to listen on (``tcp``), else empty.
        port: Port to listen on (``tcp``), else 0.
        path: Socket (``ipc``) or folder (``file``), else ``None``.
    """

    kind: TargetKind
    host: str = ""
    port: int = 0
    path: Path | None = None

    @classmethod
    def parse(cls, text: str) -> TelemetryTarget:
        """The target that ``tcp://HOST:PORT``, ``ipc://PATH`` or ``file:FOLDER`` names.

        Raises:
            ConfigError: it names none.
        """
        if text.startswith("tcp://"):
            return cls._tcp(text)
        for kind, prefix in ((TargetKind.IPC, "ipc://"), (TargetKind.FILE, "file:")):
            rest = text.removeprefix(prefix).removeprefix("//")
            if text.startswith(prefix) and rest and "\0" not in rest:
                return cls._local(kind, Path(rest).absolute())
        raise ConfigError("telemetry must name a loopback port, a socket or a folder", got=repr(text), remedy=_REMEDY)

    @classmethod
    def _local(cls, kind: TargetKind, path: Path) -> TelemetryTarget:
        if kind is TargetKind.IPC and len(bytes(path)) > _MAX_SOCKET_PATH:
            raise ConfigError(
                f"the path of a socket has at most {_MAX_SOCKET_PATH} bytes", got=f"{path}", remedy="use a shorter one"
            )
        return cls(kind, path=path)

    @classmethod
    def _tcp(cls, text: str) -> TelemetryTarget:
        match = _TCP.fullmatch(text.removeprefix("tcp://"))
        if match is None or not 1 <= int(match["port"]) <= _MAX_PORT:
            raise ConfigError("telemetry must be tcp://HOST:PORT", got=repr(text), remedy=_REMEDY)
        return cls(TargetKind.TCP, host=match["host"], port=int(match["port"]))

    @property
    def endpoint(self) -> str:
        """The address as ZMQ writes it, or the folder."""
        return f"tcp://{self.host}:{self.port}" if self.kind is TargetKind.TCP else f"{self.kind.value}://{self.path}"

    @property
    def leaves_the_machine(self) -> bool:
        """Whether other machines can read the records; worth a warning."""
        return self.kind is TargetKind.TCP and _LOOPBACK.fullmatch(self.host) is None

    def for_rank(self, rank: int) -> TelemetryTarget:
        """The same for data-parallel engine number ``rank``: the next ports, or a name with the number."""
        if rank == 0:
            return self
        if self.path is None:
            return replace(self, port=_port_of(self.port, rank))
        if self.kind is TargetKind.IPC:
            return replace(self, path=self.path.with_name(f"{self.path.name}.{rank}"))
        return replace(self, path=self.path / f"rank-{rank}")


def _port_of(port: int, rank: int) -> int:
    if port + rank > _MAX_PORT:
        raise ConfigError(f"telemetry needs one port per engine, up to {_MAX_PORT}", got=f"{port} + rank {rank}")
    return port + rank
