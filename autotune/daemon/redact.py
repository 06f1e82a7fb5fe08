"""Taking secrets out of text before it leaves the machine.

Known secrets go wherever they stand. Beyond them, what looks like one goes: user and query of an address, what follows
``Bearer`` or ``Basic``, and values of names that end in token, key, secret or password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from autotune.core.errors import ConfigError
from autotune.core.strict_yaml import read_text

REMOVED = "[removed]"
_MIN_SECRET_CHARS = 4  # shorter texts stand everywhere by chance
_MAX_SECRET_BYTES = 4096
_SECRET_NAME = re.compile(r"(token|key|secret|password|passwd|credentials?|auth)$", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^/\s\"'@]+@")
_QUERY = re.compile(r"(\bhttps?://[^\s\"'?]+)\?[^\s\"']+")
_SCHEME = re.compile(r"\b(Bearer|Basic)(\s+)[^\s\"',;]+", re.IGNORECASE)
# name: value, "name": "value" and name=value, as in api_key and x-auth-token; a cost per token is no secret.
_NAMED = re.compile(
    r"(?<![a-z])(?<!per_)((?:(?:access|api|auth|client|private)[_-]?)?(?:token|key|secret|password|passwd)[\"']?\s*[:=]\s*)"
    r"(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"',;}]+)",
    re.IGNORECASE,
)
_NOTHING = frozenset({"null", "none", "true", "false", '""', "''"})


class Redactor:
    """Removes secrets from text.

    Args:
        secrets: Texts that must not stay anywhere.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret.strip() for secret in secrets}
        # Longer ones first, so that no rest of one stays where it contains another.
        self._secrets = sorted((text for text in known if len(text) >= _MIN_SECRET_CHARS), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        text = _USER.sub(f"{REMOVED}@", text)
        text = _QUERY.sub(rf"\1?{REMOVED}", text)
        text = _SCHEME.sub(rf"\1\2{REMOVED}", text)
        text = _NAMED.sub(_without_value, text)
        for secret in self._secrets:
            text = text.replace(secret, REMOVED)
        return text


def known_secrets(environ: Mapping[str, str], files: Iterable[Path]) -> set[str]:
    """Values of variables whose name says that they are secret, and the contents of files that hold one."""
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name)}
    for path in files:
        try:
            found.add(read_text(path, ConfigError, _MAX_SECRET_BYTES).strip())
        except ConfigError:
            continue  # a file that cannot be read cannot have been copied from either
    return found


def _without_value(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    if value.lower() in _NOTHING:
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{quote}{REMOVED}{quote}"
