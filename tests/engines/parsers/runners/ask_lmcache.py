"""LMCache's own parsers: its YAML file, and the flags of its server."""

from __future__ import annotations

import argparse
import logging
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from answering import Case, answer_all


class _Warnings(logging.Handler):
    """Keeps what LMCache only warns of: unknown names, and values that it replaces by nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def ask(case: Case) -> Any:
    """A YAML text, the flags of a server, or the names that there are."""
    if "flags" in case:
        return _server(case["flags"])
    if "names" in case:
        from lmcache.v1.config import _CONFIG_DEFINITIONS

        return sorted(_CONFIG_DEFINITIONS)
    return _file(case["yaml"])


def _file(text: str) -> Any:
    from lmcache.v1.config import LMCacheEngineConfig

    warnings = _Warnings()
    logger = logging.getLogger("lmcache.v1.config_base")
    logger.addHandler(warnings)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lmcache.yaml"
            path.write_text(text, encoding="utf-8")
            config = LMCacheEngineConfig.from_file(str(path))
            config.validate()
    finally:
        logger.removeHandler(warnings)
    values = {name: getattr(config, name) for name in sorted(config._user_set_keys)}
    return {"values": values, "warnings": warnings.texts}


def _server(flags: list[str]) -> Any:
    from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
    from lmcache.v1.multiprocess.config import add_mp_server_args

    parser = add_storage_manager_args(add_mp_server_args(argparse.ArgumentParser()))
    given = parser.parse_args(flags)
    config = parse_args_to_config(given)
    return {
        "l1_bytes": config.l1_manager_config.memory_config.size_in_bytes,
        "eviction": asdict(config.eviction_config),
        "l2": [type(adapter).__name__ for adapter in config.l2_adapter_config.adapters],
        "chunk_size": given.chunk_size,
    }


if __name__ == "__main__":
    answer_all(ask)
