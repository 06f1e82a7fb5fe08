"""Fields of a ``config.json``, read with the checks that every dimension needs."""

from __future__ import annotations

from typing import NoReturn

from autotune.core.errors import ConfigError

_MAX_DIMENSION = 2**31


class Fields:
    """One configuration by field name.

    Args:
        name: What the configuration is called in messages.
        tree: The JSON object.
    """

    def __init__(self, name: str, tree: dict[str, object]) -> None:
        self.name = name
        self._tree = tree

    def __contains__(self, field: str) -> bool:
        return field in self._tree

    def get(self, field: str, default: object = None) -> object:
        """The raw value; ``default`` where the field is missing."""
        return self._tree.get(field, default)

    def text(self, field: str) -> str:
        """A field that holds text.

        Raises:
            ConfigError: it does not.
        """
        value = self.get(field)
        return value if isinstance(value, str) else self.refuse(field, "must be text")

    def flag(self, field: str, *, default: bool) -> bool:
        """A field that holds true or false.

        Raises:
            ConfigError: it does not.
        """
        value = self.get(field, default)
        return value if isinstance(value, bool) else self.refuse(field, "must be true or false")

    def count(self, field: str, *, default: int | None = None) -> int:
        """A positive whole number; a missing or null field has the value ``default``.

        Raises:
            ConfigError: it is missing without a default, or no positive whole number.
        """
        value = self.get(field)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MAX_DIMENSION:
            self.refuse(field, "must be a positive whole number")
        return value

    def refuse(self, field: str, rule: str, remedy: str = "", got: object = None) -> NoReturn:
        """Raise an error about one field.

        Raises:
            ConfigError: always.
        """
        shown = repr(self._tree.get(field) if got is None else got)
        shown = shown if len(shown) < 80 else shown[:79] + "…"
        raise ConfigError(f"{self.name}: {field} {rule}", got=shown, remedy=remedy)
