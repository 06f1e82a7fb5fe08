"""Whether a policy document is meant for this engine; one that is not is never used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.core.errors import PolicyError
from autotune.core.policy import Fingerprint, PolicyDocument
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.versions import engine_of, is_within


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine is, as far as the place where the plug-in sits can know it.

    Attributes:
        engine: Name of the engine as policies write it, such as ``vllm``.
        version: Its version as it writes it itself.
        model_names: Names of its model: path or identifier, and the names it is served under; empty = not known here.
        kv_bytes_per_token: KV of one token over all layers and ranks; ``None`` = not known here.
        serves_adapters: Whether blocks of adapters (LoRA) may be in its cache.
    """

    engine: str
    version: str
    model_names: tuple[str, ...] = ()
    kv_bytes_per_token: int | None = None
    serves_adapters: bool = False

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known here, so that no policy can be held against it; worth a warning."""
        facts = (("model", bool(self.model_names)), ("KV bytes per token", self.kv_bytes_per_token is not None))
        return tuple(name for name, is_known in facts if not is_known)


def check_match(document: PolicyDocument, engine: EngineFacts) -> None:
    """Refuse a document that is meant for another engine, or whose fallback is.

    Raises:
        PolicyError: the first thing that does not fit, and what to do about it.
    """
    HostRules.of(document)  # raises where the document has no rules for a host
    _check_fingerprint(document.fingerprint, engine)
    if document.lease is not None:
        try:
            check_match(document.lease.fallback, engine)
        except PolicyError as error:
            raise PolicyError(f"lease.fallback: {error.rule}", got=error.got, remedy=error.remedy) from error


def _check_fingerprint(fingerprint: Fingerprint, engine: EngineFacts) -> None:
    _check_model(fingerprint.model, engine.model_names)
    _check_bytes(fingerprint.kv_bytes_per_token, engine.kv_bytes_per_token)
    _check_version(fingerprint.engines, engine)
    if fingerprint.adapter_rule == "base_only" and engine.serves_adapters:
        raise PolicyError(
            "a policy with adapter_rule 'base_only' needs an engine without adapters",
            got="one that serves adapters",
            remedy="tune with adapter_rule 'any', or serve without LoRA",
        )


def _check_model(wanted: str, names: tuple[str, ...]) -> None:
    if names and _bare(wanted) not in {_bare(name) for name in names}:
        raise PolicyError(
            f"the policy is for the model {wanted!r}",
            got=f"an engine that serves {', '.join(repr(name) for name in names)}",
            remedy="if both are the same model, serve it under the policy's name or correct fingerprint.model",
        )


def _bare(name: str) -> str:
    """A name without the owner or folders in front of it; ``org/Model-8B`` and ``/models/model-8b/`` are one model."""
    return PurePosixPath(name).name.casefold()


def _check_bytes(wanted: int, found: int | None) -> None:
    if found is not None and wanted != found:
        raise PolicyError(
            f"the policy is for {wanted} bytes of KV per token over all layers and ranks",
            got=f"an engine with {found}",
            remedy="tune for this model and KV data type",
        )


def _check_version(ranges: tuple[str, ...], engine: EngineFacts) -> None:
    meant = [engine_range for engine_range in ranges if engine_of(engine_range) == engine.engine]
    if ranges and not any(is_within(engine.version, engine_range) for engine_range in meant):
        raise PolicyError(
            f"the policy is for {', '.join(ranges)}",
            got=f"{engine.engine} {engine.version}",
            remedy="tune for this version, or widen fingerprint.engines once it was checked",
        )
