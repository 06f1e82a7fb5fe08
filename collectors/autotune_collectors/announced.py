"""Where an engine's plug-in says that its records go, as this machine reaches it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from autotune.core.signals import Target

_MAX_TEXT = 512  # what the page's reader keeps of a label: a longer one may have lost its end
_FILE, _IPC, _TCP = "file:", "ipc:", "tcp://"
_LOOPBACK = re.compile(r"tcp://(localhost|127(\.[0-9]{1,3}){3}|\[::1\]):")
_ANY_HOST = re.compile(r"tcp://(\*|0\.0\.0\.0|\[::\]):")


def reached(place: str, target: Target) -> str | None:
    """The same place as a reader on this machine names it; ``None`` = it cannot be reached from here.

    Folders, sockets and loopback ports are reached where the engine is on this machine, as far as its address tells.

    Args:
        place: ``file:FOLDER``, ``ipc://PATH`` or ``tcp://HOST:PORT``, as the plug-in's page has it.
        target: The engine.
    """
    if not place.isprintable() or len(place) >= _MAX_TEXT:
        return None
    if place.startswith((_FILE, _IPC)):
        path = PurePosixPath(place.partition(":")[2].removeprefix("//"))
        return place if target.is_local and path.is_absolute() else None
    if not place.startswith(_TCP):
        return None
    host = urlsplit(target.url).hostname or "127.0.0.1"
    if _LOOPBACK.match(place):
        return place if target.is_local else None
    return _ANY_HOST.sub(f"tcp://{f'[{host}]' if ':' in host else host}:", place)
