"""Documents of a trial: the candidate with a lease, the engine's own rule as a document, and what is compared."""

from __future__ import annotations

from datetime import datetime, timedelta

from autotune.core.errors import PolicyError
from autotune.core.policy import DeviceTier, Lease, LruDocument, PolicyDocument, StoredTier, Tiers, document_hash

_RENEWALS_PER_LEASE = 3.0  # two may be missed before the engine lets go
STOCK_ROLLBACK = "This is the engine's own rule; nothing has to be undone."


def identity(document: PolicyDocument) -> str:
    """Hash of a policy without its lease: the same through all renewals, and what an engine says is in force."""
    return document_hash(confirmed(document))


def confirmed(document: PolicyDocument) -> PolicyDocument:
    """The policy for good, its lease left out."""
    return document if document.lease is None else document.model_copy(update={"lease": None})


def stock(document: PolicyDocument) -> LruDocument:
    """The engine's own LRU as a document that the same engine accepts as ``document``."""
    host = document.tiers.host
    tiers = Tiers(
        device=DeviceTier(),
        host=None if host is None else StoredTier(chunk_tokens=host.chunk_tokens),
        disk=None if document.tiers.disk is None else StoredTier(),
    )
    return LruDocument(
        fingerprint=document.fingerprint,
        budgets=document.budgets.model_copy(update={"host_write": None}),
        tiers=tiers,
        costs=document.costs,
        rollback=STOCK_ROLLBACK,
    )


def leased(document: PolicyDocument, fallback: PolicyDocument, now: datetime, lease_s: float) -> PolicyDocument:
    """The policy on trial: it ends at ``now + lease_s`` unless it is renewed.

    Raises:
        PolicyError: the fallback is itself on trial.
    """
    if fallback.lease is not None:
        raise PolicyError("a trial falls back to a confirmed policy", got="one with a lease")
    lease = Lease.model_validate(
        {
            "expires_at": now + timedelta(seconds=lease_s),
            "renew_s": lease_s / _RENEWALS_PER_LEASE,
            "fallback": fallback,
        }
    )
    return document.model_copy(update={"lease": lease})


def renewal_due(document: PolicyDocument, now: datetime) -> bool:
    """Whether a lease should be prolonged now: a third of it has gone, or the wall clock says something odd."""
    if document.lease is None:
        return False
    left_s = (document.lease.expires_at - now).total_seconds()
    whole_s = document.lease.renew_s * _RENEWALS_PER_LEASE
    return not whole_s - document.lease.renew_s < left_s <= whole_s
