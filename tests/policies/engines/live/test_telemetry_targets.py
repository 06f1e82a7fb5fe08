from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.errors import ConfigError
from autotune_policies.engines.live.targets import TargetKind, TelemetryTarget


@pytest.mark.parametrize(
    ("text", "endpoint", "leaves"),
    [
        ("tcp://127.0.0.1:5600", "tcp://127.0.0.1:5600", False),
        ("tcp://localhost:1", "tcp://localhost:1", False),
        ("tcp://[::1]:65535", "tcp://[::1]:65535", False),
        ("tcp://*:5600", "tcp://*:5600", True),
        ("tcp://0.0.0.0:5600", "tcp://0.0.0.0:5600", True),
        ("tcp://node7:5600", "tcp://node7:5600", True),
        ("ipc:///run/records.sock", "ipc:///run/records.sock", False),
        ("file:/var/records", "file:///var/records", False),
        ("file:///var/records", "file:///var/records", False),
    ],
)
def test_a_target_says_where_it_listens_and_whether_others_can_read(text: str, endpoint: str, leaves: bool) -> None:
    """Loopback, sockets and files stay on the machine; any other address is told apart."""
    target = TelemetryTarget.parse(text)
    assert (target.endpoint, target.leaves_the_machine) == (endpoint, leaves)


@pytest.mark.parametrize(
    "text",
    ["", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://a/b:1", "ipc://", "file:",
     "/var/records", "http://127.0.0.1:1", "file:/a\0b", "ipc:///" + "x" * 200],
)  # fmt: skip
def test_what_is_no_target_is_refused(text: str) -> None:
    """A port out of range, an unknown scheme or an impossible path is an error."""
    with pytest.raises(ConfigError):
        TelemetryTarget.parse(text)


def test_each_rank_has_its_own_place() -> None:
    """Ports count up, sockets and folders get the number; ports must not run out."""
    assert TelemetryTarget.parse("ipc:///run/a.sock").for_rank(2).path == Path("/run/a.sock.2")
    assert TelemetryTarget.parse("file:/var/records").for_rank(2).path == Path("/var/records/rank-2")
    assert TelemetryTarget(TargetKind.TCP, "127.0.0.1", 65_535).for_rank(0).port == 65_535
    with pytest.raises(ConfigError, match="one port per engine"):
        TelemetryTarget(TargetKind.TCP, "127.0.0.1", 65_535).for_rank(1)
