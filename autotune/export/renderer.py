"""What every renderer of an engine's native settings takes and gives, and how one is found.

A renderer is registered by the engine's name in the entry-point group ``autotune.renderers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from autotune.core import registry
from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument

MAX_BLOCK_TOKENS = 2**20
MAX_RANKS = 2**16
MAX_BATCH = 2**20


class Flavor(StrEnum):
    """How much of a policy an engine is asked to obey.

    ``PLUGIN``: all that our plug-in inside the engine can do; the policy file stays live. ``STOCK``: what the engine
    can do by itself, without anything of ours installed there.
    """

    PLUGIN = "plugin"
    STOCK = "stock"


Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
Settings = dict[str, Value]


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is to be rendered.

    Attributes:
        document: The policy.
        policy_path: Absolute path under which the engine will find the policy file. Symbolic links in it are kept, so
            that a link may be pointed at another file later.
        flavor: How much of the policy the engine is asked to obey; None = as much as it can.
        block_tokens: Tokens per block of the engine; None where it is not known.
        ranks: Processes of one engine that share its KV cache: tensor-parallel times pipeline-parallel size.
        disk_dir: Folder of the disk tier on the engine's machine; None where none was given.
        batch_size: Sequences per batch, for engines that place whole sequences; None where it was not given.
    """

    document: PolicyDocument
    policy_path: Path
    flavor: Flavor | None = None
    block_tokens: int | None = None
    ranks: int = 1
    disk_dir: Path | None = None
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """Native settings of one engine.

    Attributes:
        engine: The engine.
        flavor: How much of the policy it is asked to obey.
        option: Where the text belongs, such as ``--kv-transfer-config``.
        settings: The settings by name, as ``--json`` gives them.
        text: The same, ready to paste.
        notes: What a user should know: what could not be expressed, what each figure means, what may change live.
    """

    engine: str
    flavor: Flavor
    option: str
    settings: Settings
    text: str
    notes: tuple[str, ...]


Renderer = Callable[[ExportRequest], Export]


def export_policy(
    document: PolicyDocument,
    policy_path: Path,
    engine: str,
    *,
    flavor: Flavor | None = None,
    block_tokens: int | None = None,
    ranks: int = 1,
    disk_dir: Path | None = None,
    batch_size: int | None = None,
) -> Export:
    """The native settings with which an engine obeys a policy.

    Args:
        document: The policy.
        policy_path: Where the engine will find the policy file; a relative path counts from the current folder.
        engine: Name of a registered renderer.
        flavor: How much of the policy the engine is asked to obey; None = as much as it can.
        block_tokens: Tokens per block of the engine, where known.
        ranks: Processes of one engine that share its KV cache.
        disk_dir: Folder of the disk tier on the engine's machine.
        batch_size: Sequences per batch, for engines that place whole sequences.

    Raises:
        UnknownNameError: there is no renderer of that name; the message lists those there are.
        ConfigError: the policy or an argument cannot be rendered.
    """
    if block_tokens is not None:
        rule = "a block of the engine holds 1 to {:,} tokens"
        _check_range(rule, block_tokens, MAX_BLOCK_TOKENS, "give the engine's own --block-size")
    _check_range("an engine has 1 to {:,} ranks", ranks, MAX_RANKS, "give tensor-parallel times pipeline-parallel size")
    if batch_size is not None:
        _check_range("a batch has 1 to {:,} sequences", batch_size, MAX_BATCH, "give the engine's own batch size")
    render: Renderer = registry.load(registry.RENDERERS, engine)
    folder = disk_dir and disk_dir.absolute()
    path = policy_path.absolute()
    rendered = render(ExportRequest(document, path, flavor, block_tokens, ranks, folder, batch_size))
    # A note is a line, and a policy's names may hold line breaks.
    return replace(rendered, notes=tuple(" ".join(note.splitlines()) for note in rendered.notes))


def _check_range(rule: str, value: int, maximum: int, remedy: str) -> None:
    if not 1 <= value <= maximum:
        raise ConfigError(rule.format(maximum), got=value, remedy=remedy)
