"""Write the references in docs/ from the code that they describe: ``python docs/generate.py``.

``--check`` writes nothing and fails, naming the pages, where a page no longer says what the code says.
"""

from __future__ import annotations

import argparse
import enum
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer
from pydantic import TypeAdapter

from autotune.cli.app import app
from autotune.core.policy import PolicyDocument
from autotune.core.settings import Settings

COMMAND = "kv-autotune"
NOTE = "<!-- Written by docs/generate.py from the code; do not edit. -->"
# Options that every command has, or that a shell asks for; said once, not per command.
COMMON_OPTIONS = {"help", "install_completion", "show_completion"}
VALUE_WORDS = {int: "integer", float: "number", str: "text", Path: "path"}
# JSON Schema keyword: how a reader would say it.
BOUNDS = {
    "exclusiveMinimum": "> {}",
    "minimum": "≥ {}",
    "exclusiveMaximum": "< {}",
    "maximum": "≤ {}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "minItems": "entries ≥ {}",
    "maxItems": "entries ≤ {}",
    "pattern": "matches `{}`",
}

Schema = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Write or check every page; the exit status is 1 where a check finds drift."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page has drifted")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where the pages lie")
    options = parser.parse_args(arguments)
    pages = {"cli.md": cli_page(app), "configuration.md": configuration_page(), "policy.md": policy_page()}
    if options.check:
        return _check(options.folder, pages)
    for name, text in pages.items():
        (options.folder / name).write_text(text, encoding="utf-8")
    return 0


def cli_page(application: typer.Typer) -> str:
    """Every command with its arguments and options."""
    lines = [
        "# Command line",
        NOTE,
        "Every command has `--help`. A command that cannot do what it was asked prints one line (rule, got, remedy) "
        "and exits with a status other than 0.",
    ]
    for name, command in _commands(typer.main.get_command(application), COMMAND):
        lines += [f"## `{name}`", _prose(command.help)]
        lines += _parameters(command)
    return _joined(lines)


def configuration_page() -> str:
    """Every setting, and the file that holds their defaults."""
    defaults = files("autotune_configs").joinpath("default.yaml").read_text(encoding="utf-8")
    return _joined(
        [
            "# Configuration",
            NOTE,
            *_schema_tables(TypeAdapter(Settings).json_schema()),
            "## Defaults",
            "The file `default.yaml` of the package `autotune_configs`:",
            f"```yaml\n{defaults.rstrip()}\n```",
        ]
    )


def policy_page() -> str:
    """Every key of a policy document."""
    return _joined(["# Policy document", NOTE, *_schema_tables(TypeAdapter(PolicyDocument).json_schema())])


def _check(folder: Path, pages: dict[str, str]) -> int:
    drifted = [name for name, text in pages.items() if _read(folder / name) != text]
    for name in drifted:
        print(f"{folder / name} does not say what the code says; run: make docs", file=sys.stderr)
    return 1 if drifted else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _prose(docstring: str | None) -> str:
    """A docstring's text with its literals and references as Markdown has them."""
    return re.sub(r"(?::[a-z]+:)?`{1,2}~?(.*?)`{1,2}", r"`\1`", inspect.cleandoc(docstring or ""))


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(columns), "|" + " --- |" * len(columns), *map(line, rows)]) if rows else ""


# Commands


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and all below it, depth first; the classes of the command tree are private to typer."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    context = typer.Context(command, info_name=name)
    yield name, command
    for child in command.list_commands(context):
        found = command.get_command(context, child)
        if not found.hidden:
            yield from _commands(found, f"{name} {child}")


def _parameters(command: Any) -> list[str]:
    kinds = typing.get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
    shown = [p for p in command.params if p.name not in COMMON_OPTIONS and not getattr(p, "hidden", False)]
    rows = [(_spelling(p), _value(p, kinds.get(p.name)), _default(p), getattr(p, "help", None) or "") for p in shown]
    return [_table(("Option", "Value", "Default", "Meaning"), rows)]


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{(parameter.metavar or parameter.name).upper()}`"
    return ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))


def _value(parameter: Any, kind: Any) -> str:
    members = [member for member in typing.get_args(kind) if member is not types.NoneType]
    if typing.get_origin(kind) in (list, tuple):
        return f"{_value(parameter, members[0])}, repeatable"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _value(parameter, members[0])
    if kind is bool:
        return ""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    if parameter.metavar and parameter.param_type_name == "option":
        return f"`{parameter.metavar}`"
    return VALUE_WORDS.get(kind, "text")


def _default(parameter: Any) -> str:
    default = parameter.default
    if parameter.required:
        return "required"
    if default is None or default is False or default in ([], ()) or callable(default):
        return ""
    return f"`{default.value if isinstance(default, enum.Enum) else default}`"


# Models, by their JSON schema


def _schema_tables(schema: Schema) -> Iterator[str]:
    """A section per object of the schema, in the order in which a reader meets them."""
    definitions: dict[str, Schema] = schema.get("$defs", {})
    if "properties" in schema:
        yield _prose(schema.get("description"))
        yield _properties(schema, definitions)
    else:
        yield f"A document is one of: {_type(schema, definitions)}."
    for name in _reachable(schema, definitions):
        if "properties" in definitions[name]:
            yield f"## {name}"
            yield _prose(definitions[name].get("description"))
            yield _properties(definitions[name], definitions)


def _reachable(schema: Schema, definitions: dict[str, Schema]) -> list[str]:
    order: dict[str, None] = {}

    def visit(node: Any) -> None:
        found = list(_references(node))
        fresh = [name for name in dict.fromkeys(found) if name not in order]
        order.update(dict.fromkeys(fresh))
        for name in fresh:
            visit(definitions[name])

    visit({key: value for key, value in schema.items() if key != "$defs"})
    return list(order)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for key, value in node.items():
            if key != "discriminator":  # repeats the references of the union beside it
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _properties(schema: Schema, definitions: dict[str, Schema]) -> str:
    required = schema.get("required", [])
    rows = [
        (
            f"`{key}`",
            _type(value, definitions),
            "required" if key in required else _literal(value.get("default")),
            ", ".join(_bounds(value)),
            value.get("description", ""),
        )
        for key, value in schema["properties"].items()
    ]
    return _table(("Key", "Type", "Default", "Bounds", "Meaning"), rows)


def _type(schema: Schema, definitions: dict[str, Schema]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target = definitions[name]
        return f"[{name}](#{name.lower()})" if "properties" in target else _type(target, definitions)
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return " or ".join(_type(member, definitions) for member in schema[union])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), definitions)}"
    return str(schema.get("format", schema.get("type", "any")))


def _bounds(schema: Schema) -> Iterator[str]:
    for keyword, text in BOUNDS.items():
        if keyword in schema:
            yield text.format(_figure(schema[keyword]))
    for member in schema.get("anyOf", []):
        yield from _bounds(member)
    if isinstance(schema.get("items"), dict):
        yield from (f"each {bound}" for bound in _bounds(schema["items"]))


def _figure(value: Any) -> str:
    """A bound as a person would write it: 2^60, 1e+09, 0."""
    if isinstance(value, int) and value >= 1 << 20:
        for power, suffix in ((value, ""), (value + 1, " - 1")):
            if power & (power - 1) == 0:
                return f"2^{power.bit_length() - 1}{suffix}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _literal(value: Any) -> str:
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if not isinstance(value, dict) else "as there"


if __name__ == "__main__":
    sys.exit(main())
