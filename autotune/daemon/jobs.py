"""What the daemon gives to a search and gets back from it: two JSON files between two processes."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from autotune.core.learning_settings import LearningSettings
from autotune.core.policy import Budgets, Costs
from autotune.core.types import EngineSemantics
from autotune.core.validation import Strict


class TuneJob(Strict):
    """A search and the validation of what it finds."""

    trace: str = Field(description="FORMAT:PATH of the recorded requests.")
    out: str = Field(description="Folder for the policy.")
    model: str = Field(min_length=1, description="Model that the engine serves.")
    kv_dtype: str = Field(min_length=1, description="Element type of its KV cache.")
    engines: tuple[str, ...] = Field(default=(), description="Engines and versions that the policy is for.")
    costs: Costs = Field(description="What recompute and transfer cost there.")
    budgets: Budgets = Field(description="Bytes per tier.")
    semantics: EngineSemantics = Field(description="By whose rules the host works.")
    confirmed: str | None = Field(default=None, description="File of the policy that holds now; null = LRU.")
    newest_requests: int | None = Field(
        default=None, ge=1, description="Only so many, the newest: what came since the load changed; null = all."
    )
    learned: bool = Field(default=True, description="Whether a learned rule is a candidate too.")
    online: LearningSettings = Field(default=LearningSettings(), description="How that rule is learned.")
    unfit: str | None = Field(
        default=None, description="Why the engine could obey neither a learned rule nor a lazy store; null = it could."
    )
    trials: int = Field(ge=1, description="Settings to try.")
    seed: int = Field(default=0, ge=0, description="Of the search.")
    newest_frac: float = Field(gt=0.0, lt=1.0, description="Share of the time, the newest, that only judges.")
    confidence: float = Field(gt=0.0, lt=1.0, description="Of the bounds.")
    min_requests: int = Field(ge=1, description="Requests without which nothing is tuned.")
    min_gain_frac: float = Field(ge=0.0, lt=1.0, description="Lower bound of the gain from which a policy is worth it.")
    timeout_s: float = Field(gt=0.0, description="Seconds after which it is stopped.")
    cpu_s: float = Field(gt=0.0, description="Processor seconds that it may use.")
    cores: int = Field(ge=1, description="Cores that it may run on.")
    max_bytes: int = Field(gt=0, description="Address space that it may take, in bytes.")


class OutcomeKind(StrEnum):
    """What a search came to."""

    POLICY = "policy"  # one that is worth a trial
    NO_GAIN = "no_gain"  # nothing that lasts on the newest requests
    NOT_ENOUGH = "not_enough"  # too few requests
    FAILED = "failed"


class Share(Strict):
    """A figure, a share for the most part, with its bounds."""

    value: float = Field(description="Estimate.")
    low: float = Field(description="Lower bound.")
    high: float = Field(description="Upper bound.")


class HostSize(Strict):
    """What another size of the host tier would come to on the newest requests."""

    host_bytes: int = Field(ge=0, description="Size in bytes; 0 = none.")
    cost_s: float = Field(ge=0.0, description="Seconds of recompute, load and exposed store.")


class Candidate(Strict):
    """One policy that was tried on the newest requests, or why there is none of its kind."""

    kind: str = Field(description="Kind of policy: lru, rank or class_hazard.")
    name: str = Field(description="The same in words.")
    gain: Share | None = Field(default=None, description="Share of the present policy's cost that it saves.")
    policy: str | None = Field(default=None, description="File of it.")
    missing: str | None = Field(default=None, description="Why there is none; null = there is one.")


class TuneOutcome(Strict):
    """What a search found, judged on the newest requests, which it had not seen."""

    kind: OutcomeKind = Field(description="What it came to.")
    text: str = Field(description="The same in words.")
    policy: str | None = Field(default=None, description="File of the policy that was found.")
    chosen: str | None = Field(default=None, description="Its kind: lru, rank or class_hazard.")
    candidates: tuple[Candidate, ...] = Field(default=(), description="Everything that was a candidate, best first.")
    gain: Share | None = Field(default=None, description="Share of the present policy's cost that it saves.")
    device_hit_frac: Share | None = Field(default=None, description="Prompt tokens that the device will have.")
    host_hit_frac: Share | None = Field(default=None, description="Prompt tokens that the host will have.")
    saved_s_per_request: Share | None = Field(
        default=None, description="Seconds of recompute and load that it spares the mean request."
    )
    sizes: tuple[HostSize, ...] = Field(default=(), description="Other sizes of the host tier, smallest first.")
    stored_bytes: int | None = Field(default=None, description="Bytes that it stores on the newest requests.")
    stored_bytes_before: int | None = Field(default=None, description="Bytes that the present policy stores there.")
    loaded_bytes: int | None = Field(default=None, description="Bytes that it loads there.")
    requests: int = Field(default=0, ge=0, description="Requests that were recorded.")
    seconds: float = Field(default=0.0, ge=0.0, description="What it took.")
