"""Options and steps that the commands of the sidecar share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.core.errors import ConfigError
from autotune.core.units import GIB

if TYPE_CHECKING:
    from autotune.core.signals.target import Target
    from autotune.daemon.client import SidecarClient
    from autotune.daemon.engine_facts import GivenFacts

KEY_VARIABLE = "KV_AUTOTUNE_API_KEY"

Urls = Annotated[list[str], typer.Argument(metavar="URL...", help="Engines; several are replicas behind one router.")]
SidecarUrl = Annotated[str, typer.Argument(metavar="URL", help="The sidecar, such as http://127.0.0.1:8765.")]
State = Annotated[Path | None, typer.Option("--state", metavar="DIR", help="State folder of the sidecar.")]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Policy file that the engine watches.")
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option("--api-key-file", metavar="FILE", help=f"File with the engine's API key; or set {KEY_VARIABLE}."),
]
CaFile = Annotated[Path | None, typer.Option("--ca-file", metavar="FILE", help="Certificates to trust, for https.")]
CertFile = Annotated[Path | None, typer.Option("--cert-file", metavar="FILE", help="Certificate to show, for https.")]
KeyFile = Annotated[Path | None, typer.Option("--key-file", metavar="FILE", help="Its key, if in a file of its own.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="The sidecar's token, if not in its state folder.")
]


def engine_targets(
    urls: list[str], api_key_file: Path | None, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> tuple[Target, ...]:
    """Engines with what lets us in; the key comes from a file or the environment, never from the command line.

    Raises:
        ConfigError: an address is no URL, or a file cannot be read.
    """
    from autotune.core.signals.target import Secret, Target, Tls

    key = None
    if api_key_file is not None:
        key = Secret.from_file(api_key_file)
    elif os.environ.get(KEY_VARIABLE):
        key = Secret.from_env(KEY_VARIABLE)
    tls = Tls(ca_file, cert_file, key_file)
    return tuple(Target(url, bearer=key, tls=tls) for url in urls)


def given_facts(device_gib: float | None, host_gib: float | None) -> GivenFacts:
    """Sizes as the user gave them.

    Raises:
        ConfigError: one is negative.
    """
    from autotune.daemon.engine_facts import GivenFacts

    for name, size_gib in (("--device-gib", device_gib), ("--host-gib", host_gib)):
        if size_gib is not None and not 0.0 <= size_gib < 1e9:
            raise ConfigError(f"{name} is a size in GiB", got=f"{size_gib:g}")
    return GivenFacts(
        device_bytes=None if device_gib is None else int(device_gib * GIB),
        host_bytes=None if host_gib is None else int(host_gib * GIB),
    )


def state_folder(urls: list[str], state: Path | None) -> Path:
    """The state folder of a group of engines."""
    from autotune.daemon.state import default_state_folder
    from autotune.daemon.wiring import identity_of

    return state or default_state_folder(identity_of(url) for url in urls)


def sidecar_client(url: str, state: Path | None, token_file: Path | None) -> SidecarClient:
    """The sidecar at an address."""
    from autotune.daemon.client import find_client

    return find_client(url, state, token_file)
