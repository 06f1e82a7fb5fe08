"""Entry point of the plug-in in vLLM: short names for the spec, the connector and the cache policy.

vLLM calls :func:`register` in each of its processes (entry point group ``vllm.general_plugins``). Only names and module
paths are handed over; nothing of the plug-in is imported until a configuration asks for it. Module paths in the
configuration (``spec_module_path``, ``kv_connector_module_path``, ``cache_policy_module_path``) work without it.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

_LOG = logging.getLogger("vllm.kv_autotune")  # below vLLM's own logger, so that its handlers print it
_HERE = "autotune_policies.engines.vllm"

SPECS = ("AutotuneOffloadingSpec", "AutotuneTieringOffloadingSpec")
CONNECTOR = "AutotuneConnector"
CACHE_POLICY = "autotune"
CACHE_POLICY_CLASS = "AutotuneCachePolicy"


def register() -> None:
    """Make the short names known to vLLM. May be called again; never raises."""
    for what, act in (("specs", _specs), ("connector", _connector), ("cache policy", _cache_policy)):
        try:
            act()
        except Exception:
            _LOG.exception("short name of the %s is not registered; its module path works still", what)


def _specs() -> None:
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    for name in SPECS:
        _once(OffloadingSpecFactory, OffloadingSpecFactory.register_spec, name, f"{_HERE}.spec", name)


def _connector() -> None:
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    _once(KVConnectorFactory, KVConnectorFactory.register_connector, CONNECTOR, f"{_HERE}.connector", CONNECTOR)


def _once(factory: Any, register_name: Callable[[str, str, str], None], name: str, module: str, attribute: str) -> None:
    if name not in factory._registry:
        register_name(name, module, attribute)


def _cache_policy() -> None:
    try:
        from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory
    except ImportError:  # up to 0.26: a dictionary of classes, called to make a policy
        from vllm.v1.kv_offload.cpu.manager import _CACHE_POLICIES

        _CACHE_POLICIES.setdefault(CACHE_POLICY, _make_policy)
        return
    add = CachePolicyFactory.register_cache_policy
    _once(CachePolicyFactory, add, CACHE_POLICY, f"{_HERE}.cache_policy", CACHE_POLICY_CLASS)


def _make_policy(cache_capacity: int) -> Any:
    module = importlib.import_module(f"{_HERE}.cache_policy")
    return getattr(module, CACHE_POLICY_CLASS)(cache_capacity=cache_capacity)
