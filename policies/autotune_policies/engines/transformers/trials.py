"""Real short generations with Transformers, under settings that change from one to the next without a restart."""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from transformers import DynamicCache
from transformers.generation.streamers import BaseStreamer

from autotune.core.clock import Clock, SystemClock
from autotune.core.errors import StreamingError
from autotune.core.streaming import (
    GenerationSetting,
    LayerTimes,
    MeasuredGeneration,
    ModelKv,
    NotRun,
    Placement,
    Workload,
)
from autotune_policies.engines.transformers.cache import StreamingCache, cache_keyword
from autotune_policies.engines.transformers.models import open_model

_SKIPPED_STEPS = 2  # after the prompt, the first steps still wait for its stores and fill the slots


class TransformersEngine:
    """Generates with one model; see :class:`autotune.core.streaming.GenerationEngine`.

    Every generation is greedy, from the same prompts, and must give the tokens of the first one at its batch, which is
    resident on a CPU.

    Args:
        model: Folder of a model, or path of a ``config.json``.
        workload: What is generated.
        dtype: Element type of weights and KV; None = the configuration's.
        simulated_link_bytes_per_s: Pace of a simulated link, where there is no device.
        clock: Time.

    Raises:
        StreamingError: the model cannot be opened, none of its layers can be streamed, or a link is to be simulated
            beside a real one.
    """

    def __init__(
        self,
        model: str,
        workload: Workload,
        dtype: str | None = None,
        simulated_link_bytes_per_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if workload.new_tokens < _SKIPPED_STEPS + 3 or min(workload.prompt_tokens, workload.repeats) < 1:
            raise StreamingError(
                f"a workload has a prompt, at least {_SKIPPED_STEPS + 3} new tokens and one generation", got=workload
            )
        self._name = model
        self._workload = workload
        self._pace = simulated_link_bytes_per_s
        self._clock = clock or SystemClock()
        self._model = open_model(model, dtype)
        self._device: torch.device = next(self._model.parameters()).device
        if self._pace is not None and self._device.type != "cpu":
            raise StreamingError(
                "a link is simulated on a CPU", got=self._device, remedy="leave the simulated link out"
            )
        self._kv = self._describe()
        self._ids: dict[int, torch.Tensor] = {}
        self._load_bytes_per_s: dict[int, float] = {}

    def describe(self) -> ModelKv:
        """What the model keeps."""
        return self._kv

    def layer_times(self, batch: int) -> LayerTimes:
        """Compute and link at a batch.

        On a CPU with everything resident. On a device, where that may not fit, with everything streamed: its events
        tell waits from compute.
        """
        n_resident = len(self._kv.candidates) if self._device.type == "cpu" else 0
        run = self.run(GenerationSetting(n_resident, 1, Placement.EVEN, batch))
        if batch not in self._load_bytes_per_s:
            self._load_bytes_per_s[batch] = self._pace or self._measure_link(batch)
        return LayerTimes(run.compute_s, self._load_bytes_per_s[batch])

    def run(self, setting: GenerationSetting) -> MeasuredGeneration:
        """Generations under a setting, the fastest of them.

        Raises:
            StreamingError: one gave other tokens than another at this batch.
        """
        runs = [self._run(setting) for _ in range(self._workload.repeats)]
        return min(runs, key=lambda run: run.step_s)

    def _run(self, setting: GenerationSetting) -> MeasuredGeneration:
        with self._cache(setting) as cache:
            prefill_s, step_s = self._generate(cache, setting.batch)
            stats = cache.stats()
            wait_s = stats.wait_s / (stats.steps - 1)
            compute_s = self._compute_s(cache, step_s - wait_s)
        return MeasuredGeneration(
            prefill_s=prefill_s,
            step_s=step_s,
            wait_s=wait_s,
            compute_s=compute_s,
            loaded_bytes=stats.loaded_bytes,
            stored_bytes=stats.stored_bytes,
            peak_slots=stats.peak_slots,
            device_bytes=stats.device_bytes,
        )

    def run_native_offload(self, batch: int) -> float | NotRun:
        """Seconds per step of the same generation under Transformers' own offloaded cache, where that runs."""
        try:
            caches = [DynamicCache(config=self._model.config, offloading=True) for _ in range(self._workload.repeats)]
            return min(self._generate(cache, batch)[1] for cache in caches)
        except StreamingError:
            raise
        except Exception as error:  # it asks for CUDA in several ways, each with an error of its own
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            return NotRun(f"Transformers' own offloaded cache does not run on {self._device.type}: {reason}")

    def close(self) -> None:
        """Free the model."""
        del self._model

    def _cache(self, setting: GenerationSetting) -> StreamingCache:
        return StreamingCache(
            self._model.config,
            prefetch_depth=setting.prefetch_depth,
            n_resident=setting.n_resident,
            placement=setting.placement,
            simulated_link_bytes_per_s=self._pace,
            clock=self._clock,
        )

    def _compute_s(self, cache: StreamingCache, total_s: float) -> tuple[float, ...]:
        if self._device.type == "cpu":
            return cache.layer_compute_s()
        # The host's clock sees the queueing there and not the work, so layers count as equal.
        return (max(total_s, 0.0) / self._kv.n_layers,) * self._kv.n_layers

    def _measure_link(self, batch: int) -> float:
        with self._cache(GenerationSetting(0, 0, Placement.EVEN, batch)) as cache:
            self._generate(cache, batch)
            stats = cache.stats()
        return stats.loaded_bytes / stats.transfer_s

    def _generate(self, cache: Any, batch: int) -> tuple[float, float]:
        """Seconds until the first token, and per decode step, the median."""
        arrivals = _Arrivals(self._clock)
        ids = self._prompts(batch)
        tokens = self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=self._workload.new_tokens,
            max_new_tokens=self._workload.new_tokens,
            streamer=arrivals,
            **{cache_keyword(self._model): cache},
        )
        expected = self._ids.setdefault(batch, tokens)
        if not torch.equal(expected, tokens):
            raise StreamingError(
                "a setting changes no token", got="other tokens", remedy="report the model; p = 1 works meanwhile"
            )
        seconds = [after - before for before, after in pairwise(arrivals.times_s)]
        return seconds[0], median(seconds[1 + _SKIPPED_STEPS :])

    def _prompts(self, batch: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self._workload.seed)
        vocabulary = self._model.config.get_text_config(decoder=True).vocab_size
        ids = torch.randint(vocabulary, (batch, self._workload.prompt_tokens), generator=generator)
        return ids.to(self._device)

    def _describe(self) -> ModelKv:
        """What layers keep is read from tensors that the model makes, and not from its configuration."""
        cache = DynamicCache(config=self._model.config)
        with torch.no_grad():
            self._model(self._prompts(1)[:, :1], use_cache=True, **{cache_keyword(self._model): cache})
        with StreamingCache(self._model.config) as streaming:
            candidates = streaming.candidates
        if not candidates:
            raise StreamingError("a model to tune has layers that can be streamed", got=f"none in {self._name}")
        layers = [cache.layers[i] for i in candidates]
        return ModelKv(
            name=self._name,
            candidates=candidates,
            n_layers=len(cache.layers),
            layer_token_bytes=max(layer.keys.nbytes + layer.values.nbytes for layer in layers),
            element_type=str(layers[0].keys.dtype).removeprefix("torch."),
            device=self._device.type,
            versions=tuple((name, version(name)) for name in ("torch", "transformers")),
        )


class _Arrivals(BaseStreamer):  # type: ignore[misc, unused-ignore]
    """When tokens come out: the prompt first, then each step's, copied to the host and so really computed."""

    def __init__(self, clock: Clock) -> None:
        self.times_s: list[float] = []
        self._clock = clock

    def put(self, value: object) -> None:
        self.times_s.append(self._clock.monotonic_s())

    def end(self) -> None:
        """Nothing is kept back."""
