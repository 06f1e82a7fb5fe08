"""Simulator of an engine's tiered KV cache, and a queueing model on top of it.

A request at time t touches its blocks in prefix order:

1. The longest run present on the device is a device hit. From there the longest run present on the host is a host hit
   and is loaded, then the disk's, and the rest is computed. A hit counts only inside that prefix run, and a run whose
   load would take longer than its recomputation is computed.
2. When the request's blocks become idle (at once, or under service timing when the request finishes; until then they
   are pinned and charged to the device), every tier hears of them, deepest block first: residents are touched, and
   missing blocks come in where the tier takes them. The device takes all; the host takes what it lacks under eager
   stores, and nothing yet under lazy and exclusive stores; the disk takes nothing yet.
3. Each tier is shrunk to its capacity by its policy, nearest first. Under lazy and exclusive stores the host is offered
   what the device evicts; the disk is offered what the host evicts. Under exclusive stores a block that is on the
   device leaves the host.

Policies see accesses only (:mod:`autotune.core.eviction`); which tier a policy governs is the configuration's business
(:class:`~autotune.sim.config.CacheConfig`). :mod:`~autotune.sim.loop` is the compiled form,
:mod:`~autotune.sim.reference` the plain one that it must equal in every count.

Those are the canonical semantics, which the golden counts stand for. In vllm mode the host works by the rules of vLLM's
offloading instead (:mod:`~autotune.sim.vllm_mode`, plainly in :mod:`~autotune.sim.vllm_reference`), so that
:func:`~autotune.sim.vllm_decisions.vllm_decisions` tells, chunk by chunk, what an engine does.
"""
