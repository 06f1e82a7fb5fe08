"""Files of the data package that are written from the code: settings with their defaults, and the JSON schema.

``python -m autotune.export.generated`` writes them; the tests check that they are up to date.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from autotune.core.commented_yaml import to_commented_yaml
from autotune.core.settings import Settings
from autotune.export.schema import render_schema

_SETTINGS_HEADER = """\
All settings of kv-autotune with their defaults. A settings file of your own names only what it changes.
Written from autotune.core.settings; change it there and run: python -m autotune.export.generated"""


def render_settings(settings: Settings) -> str:
    """Settings as commented YAML."""
    return to_commented_yaml(settings, _SETTINGS_HEADER)


def generated_files() -> dict[str, str]:
    """Path inside the data package → text that belongs there."""
    return {"default.yaml": render_settings(Settings()), "schema/policy-v1.json": render_schema()}


def main() -> None:
    """Write every generated file into the data package that is on the import path."""
    folder = Path(str(resources.files("autotune_configs")))
    for name, text in generated_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
