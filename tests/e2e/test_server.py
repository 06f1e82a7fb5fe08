"""A server that does not start says why, and leaves nothing behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from server import Server, ServerError, ServerSettings, environment, stock_config, with_link

LINK = {"simulated_link_gb_per_s": 0.5}


def settings(folder: Path, **changes: object) -> ServerSettings:
    """Settings of a server of this interpreter."""
    given = {"python": Path(sys.executable), "model": folder, "device_blocks": 72, "max_model_tokens": 2304}
    return ServerSettings(**{**given, "log": folder / "server.log", **changes})  # type: ignore[arg-type]


def test_stock_argument_names_no_policy_of_ours() -> None:
    """The stock server runs vLLM's own connector and manager; only the link is simulated."""
    config = json.loads(stock_config("arc", 1 << 20, LINK))
    assert config["kv_connector"] == "OffloadingConnector"
    assert config["kv_connector_extra_config"] == {
        "spec_name": "StockManagerSpec",
        "spec_module_path": "stock_spec",
        "cpu_bytes_to_use": 1 << 20,
        "eviction_policy": "arc",
        "simulated_link_gb_per_s": 0.5,
    }


def test_link_is_added_to_any_argument() -> None:
    """What was there stays, and the link's settings come to it."""
    config = json.loads(with_link('{"kv_connector": "X", "kv_connector_extra_config": {"a": 1}}', LINK))
    assert config == {"kv_connector": "X", "kv_connector_extra_config": {"a": 1, "simulated_link_gb_per_s": 0.5}}


def test_command_has_the_block_that_never_holds_kv(tmp_path: Path) -> None:
    """The pool is one block larger than what can hold KV, and a prompt of the longest length is one step."""
    command = settings(tmp_path, kv_transfer_config="{}").command(8123)
    assert command[command.index("--num-gpu-blocks-override") + 1] == "73"
    assert command[command.index("--max-num-batched-tokens") + 1] == "2304"
    assert command[command.index("--kv-transfer-config") + 1] == "{}"
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert "--kv-transfer-config" not in settings(tmp_path).command(8123)


def test_child_processes_find_this_project() -> None:
    """Children see the three source roots and the scripts, and never ask the network for a model."""
    variables = environment()
    assert str(Path(__file__).parent) in variables["PYTHONPATH"].split(":")
    assert variables["HF_HUB_OFFLINE"] == "1"


def test_server_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    """The error has the exit status and the last lines of the log, and nothing is left to stop."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such engine here\nexit 7\n", encoding="utf-8")
    broken.chmod(0o755)
    server = Server(settings(tmp_path, python=broken))
    with pytest.raises(ServerError, match=r"(?s)must start; got exit status 7: the log .*no such engine here"):
        server.start()
    server.stop()
