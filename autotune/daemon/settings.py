"""Settings of the sidecar from flags, environment and file, in this order of weight, and new ones while it runs.

A setting ``section.name`` is called ``KV_AUTOTUNE_SECTION_NAME`` in the environment; ``mode`` is ``KV_AUTOTUNE_MODE``.
"""

from __future__ import annotations

import signal
import threading
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from pydantic import BaseModel

from autotune.core.commented_yaml import to_commented_yaml
from autotune.core.errors import AutotuneError, ConfigError
from autotune.core.settings import Settings
from autotune.core.sidecar_settings import SidecarSettings
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import nearest, validate

PREFIX = "KV_AUTOTUNE_"
# Variables that begin alike and are no settings: secrets, and what the plug-in reads where both share an environment.
OTHER_VARIABLES = frozenset(
    {"KV_AUTOTUNE_API_KEY", "KV_AUTOTUNE_HTTP_TOKEN", "KV_AUTOTUNE_POLICY", "KV_AUTOTUNE_TOKEN", "KV_AUTOTUNE_TRACES"}
)
# Read once, when the sidecar starts: a reload that changes them says so and leaves them.
NEEDS_RESTART = ("http",)
_ONLINE = "\nonline:\n"


def setting_names(model: type[BaseModel] = SidecarSettings, prefix: str = "") -> dict[str, object]:
    """Every setting by its path, such as ``http.port``, with the type of its value."""
    names: dict[str, object] = {}
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= setting_names(kind, f"{prefix}{name}.")
        else:
            names[f"{prefix}{name}"] = kind
    return names


def variable_name(path: str) -> str:
    """Name of a setting in the environment."""
    return PREFIX + path.replace(".", "_").upper()


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Where settings come from; what is named first in this list wins: flags, environment, file, defaults.

    Attributes:
        path: Settings file, the same that ``tune`` reads; ``None`` = none.
        environ: Environment; names that begin with ``KV_AUTOTUNE_`` must be known.
        flags: Path of a setting, such as ``http.port``, to its value; ``None`` = not given.
    """

    path: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, object] = field(default_factory=dict)

    def load(self) -> Settings:
        """The settings that hold now; flags and environment are for section ``sidecar``.

        Raises:
            ConfigError: the first rule that a file, a variable or a flag breaks, with the nearest valid name.
        """
        tree = self._file()
        what = str(self.path) if self.path else "settings"
        validate(Settings, tree, ConfigError, what)  # its own faults are named by its own name
        section = typing.cast(dict[str, object], tree.setdefault("sidecar", {}))
        for path, value, name in (*self._variables(), *self._flags()):
            _put(section, path, value)
            validate(SidecarSettings, section, ConfigError, name)
        return validate(Settings, tree, ConfigError, what)

    def _file(self) -> dict[str, object]:
        return parse_mapping(read_text(self.path, ConfigError), ConfigError) if self.path else {}

    def _variables(self) -> list[tuple[str, object, str]]:
        paths = {variable_name(path): (path, kind) for path, kind in setting_names().items()}
        found = []
        for name, text in sorted(self.environ.items()):
            if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
                continue
            if name not in paths:
                raise ConfigError(
                    f"the environment's {PREFIX}... are settings of the sidecar", got=name, remedy=_near(name, paths)
                )
            path, kind = paths[name]
            found.append((path, _value(text, kind, name), name))
        return found

    def _flags(self) -> list[tuple[str, object, str]]:
        known = setting_names()
        given = {path: value for path, value in self.flags.items() if value is not None}
        for path in given:
            if path not in known:
                raise ConfigError("a flag sets a known setting", got=path, remedy=_near(path, known))
        return [(path, value, f"flag for {path}") for path, value in given.items()]


class LiveSettings:
    """Settings that may change while the sidecar runs; a file that is not valid changes nothing.

    Args:
        source: Where they come from.
        on_change: Called with the new settings, in the thread that calls :meth:`reload`.
    """

    def __init__(self, source: SettingsSource, on_change: Callable[[Settings], None] | None = None) -> None:
        self.source = source
        self.on_change = on_change
        self.current = source.load()
        self._asked = threading.Event()

    def listen(self) -> None:
        """Let SIGHUP ask for a reload; only the main thread may call this."""
        signal.signal(signal.SIGHUP, self._on_hangup)

    def ask(self) -> None:
        """Ask for a reload; the loop does it between two rounds."""
        self._asked.set()

    def reload_if_asked(self) -> AutotuneError | None:
        """Reload where that was asked for since the last call; see :meth:`reload`."""
        if not self._asked.is_set():
            return None
        self._asked.clear()
        return self.reload()

    def reload(self) -> AutotuneError | None:
        """Read all settings anew.

        Returns:
            Why they were refused, the old ones staying in force; ``None`` = the new ones hold.
        """
        try:
            new = self.source.load()
            _require_same(self.current.sidecar, new.sidecar)
            if new != self.current and self.on_change is not None:
                self.on_change(new)
        except AutotuneError as error:
            return error
        self.current = new
        return None

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        self.ask()  # a handler interrupts any line of the main thread, so it does no more than this


def effective_text(settings: Settings) -> str:
    """What ``--check-config`` prints: every setting that a sidecar obeys with the value that holds, as a file."""
    text = to_commented_yaml(settings, "Settings of the sidecar in force.")
    head, _, rest = text.partition("\n\n")
    return f"{head}\n\nonline:\n{rest.partition(_ONLINE)[2]}"


def _require_same(old: SidecarSettings, new: SidecarSettings) -> None:
    for name in NEEDS_RESTART:
        if getattr(old, name) != getattr(new, name):
            raise ConfigError(
                f"the settings {name}.* hold from start to end", got="others", remedy="restart the sidecar"
            )


def _put(section: dict[str, object], path: str, value: object) -> None:
    *folders, name = path.split(".")
    for folder in folders:
        inner = section.setdefault(folder, {})
        if not isinstance(inner, dict):
            return  # the validation that follows says so
        section = inner
    section[name] = value


def _value(text: str, kind: object, name: str) -> object:
    """The value of a variable: text as it is, lists by commas, anything else as YAML has it."""
    kinds = {kind, *typing.get_args(kind)}
    if typing.get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if str in kinds or typing.get_origin(kind) is typing.Literal:
        return text
    try:
        return parse_mapping(f"value: {text}", ConfigError)["value"]
    except ConfigError as problem:
        raise ConfigError(f"{name} must be one value", got=repr(text)) from problem


def _near(name: str, known: typing.Iterable[str]) -> str:
    """The nearest name alone: the list of all is long, and in the reference."""
    return nearest(name, known).partition("known:")[0].strip() or "see docs/configuration.md"
