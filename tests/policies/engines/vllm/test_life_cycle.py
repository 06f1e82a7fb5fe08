"""Model check of the life of copies: in flight, failed, aborted, reset and preempted in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scheduler_harness import KvCorruptionError, SchedulerHarness, drive, prompt
from scheduler_setup import HarnessConfig

from autotune.core.types import StoreMode
from autotune_policies.engines.live.rules import HostRules

pytestmark = pytest.mark.engine("vllm")

OURS = HarnessConfig(
    connector="AutotuneConnector", connector_module="autotune_policies.engines.vllm.connector", device_blocks=12
)
OUR_SPEC = (
    ("spec_name", "AutotuneOffloadingSpec"),
    ("spec_module_path", "autotune_policies.engines.vllm.spec"),
)
LAYOUTS = {
    "small": OURS,
    "tight": replace(OURS, device_blocks=10, host_chunks=4),
    "roomy": replace(OURS, device_blocks=40, host_chunks=20, max_batched_tokens=12),
    "chunks": replace(OURS, blocks_per_chunk=2),
    "windows": replace(OURS, device_blocks=20, window_tokens=8),
    "ranked": replace(OURS, extra=OUR_SPEC),
    "ranked windows": replace(OURS, device_blocks=20, window_tokens=8, extra=OUR_SPEC),
}
POLICIES = ("stock", "lazy", "keep", "lazy and keep", "dear loads")


def obey(harness: SchedulerHarness, policy: str) -> None:
    """Put a policy in force as the manager would."""
    from autotune_policies.engines.vllm.device import DeviceRules

    manager = harness.manager
    rules = replace(
        HostRules.lru(),
        store_mode=StoreMode.LAZY if "lazy" in policy else StoreMode.EAGER,
        min_load_tokens=10 if policy == "dear loads" else 0,
    )
    ranks = replace(HostRules.lru(), kind="rank", weight_ns=1e9, ghost_ratio=4.0)
    device_rules = DeviceRules(ranks) if "keep" in policy else None
    if hasattr(manager, "index"):
        manager.index.begin_swap(replace(rules, kind="rank", weight_ns=1e9, ghost_ratio=2.0))
        manager._device_rules = device_rules
    else:
        manager.rules, manager.device_rules = rules, device_rules


class CopyLifeCycle(RuleBasedStateMachine):
    """A scheduler, our connector and a worker whose copies complete whenever the search likes."""

    harness: SchedulerHarness

    @initialize(layout=st.sampled_from(sorted(LAYOUTS)), policy=st.sampled_from(POLICIES))
    def start(self, layout: str, policy: str) -> None:
        """An engine at rest."""
        self.harness = SchedulerHarness(LAYOUTS[layout], order=lambda _: [])
        obey(self.harness, policy)

    @rule(
        branch=st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)),
        n_tokens=st.integers(1, 28),
        max_tokens=st.integers(1, 6),
    )
    def request(self, branch: tuple[int, int, int], n_tokens: int, max_tokens: int) -> None:
        """A request arrives; many share prefixes."""
        if len(self.harness.scheduler.requests) < 8:
            self.harness.add(prompt(branch, n_tokens), max_tokens)

    @rule(reports=st.sampled_from((0, 1, None)), n_steps=st.integers(1, 3))
    def step(self, reports: int | None, n_steps: int) -> None:
        """The engine takes steps; only some of the finished copies are reported."""
        for _ in range(n_steps):
            self.harness.step(reports)

    @precondition(lambda self: self.harness.worker.submitted)
    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        """One copy in flight is made now, not necessarily the oldest."""
        self.harness.worker.copy(data.draw(st.sampled_from(sorted(self.harness.worker.submitted))))

    @precondition(lambda self: self.harness.scheduler.requests)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        """A client disconnects, whatever its request is doing."""
        self.harness.abort(data.draw(st.sampled_from(sorted(self.harness.scheduler.requests))))

    @rule()
    def fail_next_store(self) -> None:
        """The next completed store is one that failed."""
        self.harness.failing_stores += 1

    @rule(host=st.booleans())
    def reset(self, host: bool) -> None:
        """The caches are emptied between two steps."""
        self.harness.reset(host=host)

    @precondition(lambda self: not self.harness.is_loading)
    @rule(host=st.booleans())
    def reset_and_preempt(self, host: bool) -> None:
        """The caches are emptied, running requests included; the engine itself forbids this during loads."""
        assert self.harness.reset(preempt=True, host=host)

    @rule(policy=st.sampled_from(POLICIES))
    def swap_policy(self, policy: str) -> None:
        """Another policy comes into force."""
        obey(self.harness, policy)

    @invariant()
    def holds(self) -> None:
        """Content is what its key promises, the queue is sound, and residents fit."""
        if hasattr(self, "harness"):
            self.harness.check_queue()
            self.harness.check_host()
            self.harness.check_contents()

    def teardown(self) -> None:
        """Every request finishes, and nothing stays pinned, pending or referenced."""
        if hasattr(self, "harness"):
            self.harness.drain()
            self.harness.check_at_rest()
            assert not self.harness.connector._is_stock, "our part failed and fell back"


_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TestCopyLifeCycle = CopyLifeCycle.TestCase
TestCopyLifeCycle.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,  # the same cases everywhere; 'make fuzz' draws new ones
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=_PATIENT,
)


@pytest.mark.fuzz
class TestCopyLifeCycleLong(CopyLifeCycle.TestCase):  # type: ignore[valid-type, misc]
    settings = settings(max_examples=3_000, stateful_step_count=80, deadline=None, suppress_health_check=_PATIENT)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_random_traffic_keeps_every_block_whole_and_comes_to_rest(layout: str, policy: str) -> None:
    """Long random traffic under every policy and layout ends with nothing pinned and never reads a wrong block."""
    harness = SchedulerHarness(LAYOUTS[layout])
    obey(harness, policy)
    drive(harness, seed=1, n_steps=250)
    assert harness.counts.loads > 0 or sum(harness.connector._ours.counters.loads_refused.values()) > 0
    assert not harness.connector._is_stock


def test_tight_pools_preempt_and_stall() -> None:
    """The traffic reaches the hard cases: preemptions, and copies that a step has to wait for."""
    harness = SchedulerHarness(LAYOUTS["tight"])
    obey(harness, "lazy and keep")
    drive(harness, seed=2, n_steps=300)
    assert harness.counts.preemptions > 0
    assert harness.counts.stalled_jobs > 0


def test_without_a_policy_every_step_is_that_of_the_stock_connector() -> None:
    """Where no policy is in force, the connector plans exactly the copies that vLLM's own plans."""
    counts = []
    for config in (OURS, replace(OURS, connector="OffloadingConnector", connector_module=None)):
        harness = SchedulerHarness(config)
        drive(harness, seed=3, n_steps=300)
        counts.append((harness.counts, harness.outputs))
    assert counts[0] == counts[1]


# The check can fail: what follows breaks one rule each.


def _without_fence(harness: SchedulerHarness) -> None:
    class NoFence(dict[int, set[int]]):
        """Forgets every fence of the lazy store."""

        def setdefault(self, key: int, default: Any = None) -> Any:
            return set()

    harness.connector.connector_scheduler._block_id_to_pending_jobs = NoFence()


def _complete_at_once(harness: SchedulerHarness) -> None:
    lazy_class = type(harness.connector._ours._lazy)
    lazy = harness.connector._ours._lazy

    def plan(*arguments: Any) -> dict[int, Any]:
        jobs: dict[int, Any] = lazy_class.plan(lazy, *arguments)
        for job_id in jobs:
            lazy.complete({job_id: 1}, lambda *_: None)
        return jobs

    lazy.plan = plan


def _forget_jobs_at_reset(harness: SchedulerHarness) -> None:
    lazy = harness.connector._ours._lazy
    lazy.reset = lazy._jobs.clear


def _load_without_waiting(harness: SchedulerHarness) -> None:
    worker = harness.worker
    copy = worker.copy

    def skip_loads(job_id: int) -> None:
        if worker.submitted[job_id].is_store:
            copy(job_id)
        else:
            worker.copied[job_id] = worker.submitted.pop(job_id)

    worker.copy = skip_loads  # type: ignore[method-assign]


@pytest.mark.parametrize("break_it", [_without_fence, _complete_at_once, _forget_jobs_at_reset, _load_without_waiting])
def test_the_check_fails_when_a_rule_is_broken(break_it: Callable[[SchedulerHarness], None]) -> None:
    """A lazy store without fences, early completions, forgotten flushes and unfinished loads are all noticed."""
    failures = 0
    for seed in range(6):
        harness = SchedulerHarness(replace(OURS, device_blocks=14, host_chunks=8))
        obey(harness, "lazy")
        harness.connector._ours.follow_policy()
        break_it(harness)
        try:
            drive(harness, seed, n_steps=250, copies_frac=0.2, resets_frac=0.03)
        except (KvCorruptionError, AssertionError):
            failures += 1
    assert failures > 0
