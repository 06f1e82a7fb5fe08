from __future__ import annotations

import pytest

from autotune.daemon.audit import AuditEntry
from autotune.daemon.status import Cause, ChangeKind
from autotune.testing.clocks import ManualClock


def entry(kind: ChangeKind, who: str) -> AuditEntry:
    """An entry of which only kind and author matter."""
    return AuditEntry(at=ManualClock().utc_now(), kind=kind, reason="x", undo="y", who=who)


@pytest.mark.parametrize("kind", ChangeKind)
def test_orders_are_the_operators(kind: ChangeKind) -> None:
    """Whatever somebody asked for is counted as the operator's."""
    assert entry(kind, "http").change().cause is Cause.OPERATOR


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (ChangeKind.RECOMMENDED, Cause.BETTER),
        (ChangeKind.CANARY_STARTED, Cause.BETTER),
        (ChangeKind.CANARY_KEPT, Cause.KEPT_PROMISE),
        (ChangeKind.ROLLED_BACK, Cause.GUARD),
        (ChangeKind.LET_GO, Cause.ADMINISTRATOR),
        (ChangeKind.RECOVERED, Cause.RESTART),
    ],
)
def test_what_the_sidecar_does_has_its_cause(kind: ChangeKind, cause: Cause) -> None:
    """What the sidecar does by itself is counted by why it does that."""
    assert entry(kind, "sidecar").change().cause is cause
