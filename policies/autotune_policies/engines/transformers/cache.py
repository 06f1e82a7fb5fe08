"""The cache that a user passes to ``generate``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from autotune.core.clock import Clock, SystemClock
from autotune.core.errors import StreamingError
from autotune.core.streaming import Placement, resident_count, streamed_layers
from autotune_policies.engines.transformers.versions import require_supported

require_supported()  # before anything of an engine that may be another one

# ruff: noqa: E402
import torch
from transformers import DynamicCache

from autotune_policies.engines.transformers.layers import streamable_layers
from autotune_policies.engines.transformers.link import Link, ThreadLink
from autotune_policies.engines.transformers.master import HostMaster
from autotune_policies.engines.transformers.plan import StreamingPlan
from autotune_policies.engines.transformers.prefetch import Prefetcher
from autotune_policies.engines.transformers.stats import StreamingStats
from autotune_policies.engines.transformers.steps import StepOrder

_DISCARDED = "a streaming cache is used from its first forward pass on without an error in between"


def cache_keyword(model: Any) -> str:
    """The name under which a model's ``forward`` and ``generate`` take a cache.

    Source: transformers: ``past_key_values`` up to 5.23, ``cache`` from 5.24.
    """
    parameters = inspect.signature(inspect.unwrap(type(model).forward)).parameters
    return "cache" if "cache" in parameters else "past_key_values"


class StreamingCache(DynamicCache):
    """Transformers' dynamic cache with part of its layers in host memory.

    Every step loads a streamed layer's KV before its attention and drops it after; only the new token is stored. What
    attention sees is bit for bit what it would see on the device: Transformers' own layer update runs on the loaded
    tensors. Only layers of exactly the type ``DynamicLayer`` are streamed; all others stay as Transformers has them.

    Use it as a context manager, or call :meth:`close`: it owns a thread (or streams) and host memory. After an error in
    a forward pass its layers would disagree about what they have seen, so it discards itself and refuses further use.

    Args:
        config: The model's configuration.
        resident_frac: p: share of the streamable layers that stays on the device.
        prefetch_depth: d: streamed layers that are loaded ahead of the one computed.
        placement: Which layers are streamed, or its name.
        n_resident: Resident layers as a number, instead of ``resident_frac``.
        simulated_link_bytes_per_s: Without a device: pace of a simulated link, so that p and d can be studied.
        clock: Time, for statistics and the simulated link.

    Raises:
        StreamingError: p, d or the number of layers is out of range, or there is no such placement.
    """

    def __init__(
        self,
        config: Any,
        resident_frac: float = 0.0,
        prefetch_depth: int = 1,
        *,
        placement: Placement | str = Placement.EVEN,
        n_resident: int | None = None,
        simulated_link_bytes_per_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if prefetch_depth < 0:
            raise StreamingError("the prefetch depth d is not negative", got=prefetch_depth)
        if placement not in list(Placement):
            raise StreamingError(f"a placement is one of {', '.join(Placement)}", got=repr(placement))
        super().__init__(config=config)
        self.candidates = streamable_layers(self.layers, config.get_text_config(decoder=True))
        if n_resident is None:
            n_resident = resident_count(len(self.candidates), resident_frac)
        self.streamed = streamed_layers(self.candidates, len(self.candidates) - n_resident, Placement(placement))
        self.prefetch_depth = prefetch_depth
        self._simulated_link_bytes_per_s = simulated_link_bytes_per_s
        self._clock = clock or SystemClock()
        self._steps = StepOrder(self._clock)
        self._masters: dict[int, HostMaster] = {}
        self._stored_bytes = 0
        self._device: torch.device | None = None
        self._link: Link | None = None
        self._prefetcher: Prefetcher | None = None
        self._ended: tuple[str, str] | None = None  # the rule that further use would break, and why

    @classmethod
    def from_policy(
        cls, policy: Path | str, config: Any, *, layer_bytes: int | None = None, **options: Any
    ) -> StreamingCache:
        """A cache with the p, d and placement of a policy document.

        Args:
            policy: Path of a ``policy.yaml``.
            config: The model's configuration.
            layer_bytes: KV bytes of one layer at the longest, whole batch; needed where the policy has no section
                ``streaming``, to find p and d for its device budget.
            **options: Passed on, such as ``simulated_link_bytes_per_s``.

        Raises:
            StreamingError: the policy says neither, or its budget is too small.
            PolicyError: it is not valid.
        """
        text_config = config.get_text_config(decoder=True)
        candidates = streamable_layers(DynamicCache(config=config).layers, text_config)
        plan = StreamingPlan.from_policy(Path(policy), len(candidates), layer_bytes)
        return cls(
            config,
            prefetch_depth=plan.prefetch_depth,
            n_resident=plan.n_resident,
            placement=plan.placement,
            **options,
        )

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add a layer's new tokens, and return its keys and values on the device.

        Raises:
            StreamingError: the cache is closed or discarded, or this pass began before the last one was complete.
        """
        self._require_usable()
        try:
            self._steps.arrive(layer_idx)
            waited_before_s = self._waited_s()
            if self._prefetcher is not None:
                self._prefetcher.release()
            if layer_idx in self.streamed:
                states = self._update_streamed(key_states, value_states, layer_idx, *args, **kwargs)
            else:
                states = super().update(key_states, value_states, layer_idx, *args, **kwargs)
            self._steps.leave(
                layer_idx, is_decode=key_states.shape[-2] == 1, waited_s=self._waited_s() - waited_before_s
            )
        except BaseException as error:
            self._discard(f"{type(error).__name__} in layer {layer_idx}")
            raise
        return states

    def _update_streamed(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled() and (key_states.requires_grad or value_states.requires_grad):
            raise StreamingError("a streaming cache is for inference", got="gradients", remedy="use torch.no_grad()")
        link, prefetcher = self._started(key_states.device)
        layer, master = self.layers[layer_idx], self._masters[layer_idx]
        if master.n_tokens:
            loaded = prefetcher.take(layer_idx)
            layer.keys, layer.values = loaded.keys, loaded.values
        states: tuple[torch.Tensor, torch.Tensor] = layer.update(key_states, value_states, *args, **kwargs)
        self._stored_bytes += link.store(master, key_states, value_states)
        if any(part.shape[-2] != master.n_tokens for part in states):
            raise StreamingError(
                "a streamed layer returns all tokens that it was given",
                got=f"{states[0].shape[-2]} of {master.n_tokens}",
                remedy="report the model; p = 1 works meanwhile",
            )
        # Between steps the layer shows the host's copy, by which Transformers tells its length.
        layer.keys, layer.values = master.views()
        prefetcher.appended(layer_idx)
        return states

    def get_seq_length(self, *args: Any, **kwargs: Any) -> int:
        """Tokens so far; the first thing that a generation asks, so that it is refused before it begins.

        Raises:
            StreamingError: the cache is closed or discarded.
        """
        self._require_usable()
        return int(super().get_seq_length(*args, **kwargs))

    def reorder_cache(self, *args: Any, **kwargs: Any) -> None:
        """Reorder the sequences, for beam search; streamed layers on the host."""
        with self._changing_masters():
            super().reorder_cache(*args, **kwargs)

    def crop(self, *args: Any, **kwargs: Any) -> None:
        """Remove the last tokens, as the installed Transformers understands the argument."""
        with self._changing_masters():
            super().crop(*args, **kwargs)

    def batch_repeat_interleave(self, *args: Any, **kwargs: Any) -> None:
        """Repeat every sequence."""
        with self._changing_masters():
            super().batch_repeat_interleave(*args, **kwargs)

    def batch_select_indices(self, *args: Any, **kwargs: Any) -> None:
        """Keep some of the sequences."""
        with self._changing_masters():
            super().batch_select_indices(*args, **kwargs)

    def reset(self) -> None:
        """Forget all tokens; the settings and counters stay."""
        with self._changing_masters():
            super().reset()

    def stats(self) -> StreamingStats:
        """A snapshot of what the cache has done; after :meth:`close` too."""
        streamed = frozenset(self.streamed)
        resident_bytes = sum(
            part.nbytes
            for i, layer in enumerate(self.layers)
            if i not in streamed
            for part in (getattr(layer, "keys", None), getattr(layer, "values", None))
            if isinstance(part, torch.Tensor)
        )
        link, ahead = self._link, self._prefetcher
        return StreamingStats(
            n_resident=len(self.candidates) - len(self.streamed),
            n_streamed=len(self.streamed),
            prefetch_depth=self.prefetch_depth,
            steps=self._steps.steps,
            loads=ahead.loads if ahead else 0,
            loaded_bytes=ahead.loaded_bytes if ahead else 0,
            stored_bytes=self._stored_bytes,
            dropped_loads=ahead.dropped_loads if ahead else 0,
            dropped_bytes=ahead.dropped_bytes if ahead else 0,
            prefetch_hits=ahead.hits if ahead else 0,
            prefetch_late=ahead.late if ahead else 0,
            prefetch_misses=ahead.misses if ahead else 0,
            compute_s=self._steps.compute_s,
            transfer_s=link.transfer_s() if link else 0.0,
            wait_s=self._waited_s(),
            slots=ahead.slots if ahead else 0,
            peak_slots=ahead.peak_slots if ahead else 0,
            device_bytes=resident_bytes + (ahead.slot_bytes if ahead else 0),
            host_bytes=sum(master.size_bytes for master in self._masters.values()),
        )

    def layer_compute_s(self) -> tuple[float, ...]:
        """Median seconds from one layer's update to the next in decode steps, waits left out; ``(n_layers,)``.

        What a step does besides its layers counts to the last of them; layers without an update have 0. On a device
        these are times of the host, which only queues work there.
        """
        return self._steps.layer_compute_s(len(self.layers))

    def close(self) -> None:
        """Free threads, streams and memory; later use is refused. May be called again."""
        self._discard("it is closed", rule="a closed streaming cache is not used any more")

    def __enter__(self) -> StreamingCache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise StreamingError(
            "a streaming cache owns threads and cannot be copied",
            got="deepcopy or pickle",
            remedy="make one per generation",
        )

    def __copy__(self) -> NoReturn:
        self.__deepcopy__({})

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__deepcopy__({})

    def _started(self, device: torch.device) -> tuple[Link, Prefetcher]:
        if self._device not in (None, device):
            raise StreamingError(
                "streamed layers lie on one device",
                got=f"{self._device} and {device}",
                remedy="give the model one device, or use p = 1",
            )
        if self._link is None or self._prefetcher is None:
            self._masters = {i: HostMaster(is_pinned=device.type == "cuda") for i in self.streamed}
            self._link, self._device = self._new_link(device), device
            self._prefetcher = Prefetcher(self.streamed, self._masters, self.prefetch_depth, self._link)
        return self._link, self._prefetcher

    def _new_link(self, device: torch.device) -> Link:
        match device.type:
            case "cpu":
                return ThreadLink(self._simulated_link_bytes_per_s, self._clock)
            case "cuda":
                from autotune_policies.engines.transformers.cuda_link import CudaLink

                return CudaLink(device)
        raise StreamingError("layers are streamed to CUDA devices, or on a CPU", got=device, remedy="use p = 1")

    @contextmanager
    def _changing_masters(self) -> Iterator[None]:
        """What the engine does to the layers meanwhile, it does to the host's copies; loads under way are stale."""
        self._require_usable()
        try:
            if self._link is not None and self._prefetcher is not None:
                self._prefetcher.drain()
                self._link.settle()
            yield
            for i, master in self._masters.items():
                layer = self.layers[i]
                master.adopt(layer.keys, layer.values)
                if master.n_tokens:
                    layer.keys, layer.values = master.views()
        except BaseException as error:
            self._discard(f"{type(error).__name__} while its sequences were changed")
            raise

    def _waited_s(self) -> float:
        return self._link.stall_s() if self._link is not None else 0.0

    def _require_usable(self) -> None:
        if self._ended is not None:
            rule, reason = self._ended
            raise StreamingError(rule, got=reason, remedy="make a new cache and generate from the start")

    def _discard(self, reason: str, rule: str = _DISCARDED) -> None:
        if self._ended is not None:
            return
        self._ended = (rule, reason)
        if self._prefetcher is not None:
            self._prefetcher.drain()
        if self._link is not None:
            self._link.close()
        self._masters.clear()
        self.layers.clear()
