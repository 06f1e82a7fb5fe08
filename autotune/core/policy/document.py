"""The document itself: a union by ``kind``, with the rules that tie its sections together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, AwareDatetime, Field, ValidationInfo, model_validator

from autotune.core.policy.class_hazard import ClassHazardSection
from autotune.core.policy.economics import Costs, Prices
from autotune.core.policy.evidence import Expectation, Fingerprint
from autotune.core.policy.optional import Hints, Streaming
from autotune.core.policy.provenance import Provenance
from autotune.core.policy.quantities import MAX_SECONDS, Text
from autotune.core.policy.rank import RankSection
from autotune.core.policy.tiers import Budgets, Tiers
from autotune.core.types import Tier
from autotune.core.validation import BrokenRuleError, Strict

SCHEMA_ID: Final = "kv-autotune/policy/v1"
READER_VERSION = 2
FIRST_READER = 1
CLASS_HAZARD_READER = 2
KINDS = ("lru", "rank", "class_hazard")
ROLLBACK = (
    "Remove this file, or put the previous one back: the engine then uses its own LRU, or the previous policy. "
    "Only where KV lies changes, never its values, so nothing else has to be undone."
)


def _to_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]


class PolicyDocument(Strict):
    """What every kind of policy has; read one with :func:`autotune.core.policy.parse`."""

    leave_out_none: ClassVar[bool] = True

    schema_id: Literal["kv-autotune/policy/v1"] = Field(
        default=SCHEMA_ID, alias="schema", description="What this file is; a reader refuses any other."
    )
    min_reader: int = Field(
        default=FIRST_READER, ge=1, le=1000, description="Oldest version of the reader that understands this file."
    )
    kind: str = Field(
        description="Family of the policy: lru (the engine's own rule), rank (evict the smallest rank) or class_hazard "
        "(evict what a learned model expects to save least)."
    )
    fingerprint: Fingerprint = Field(description="What the engine must be for this policy to apply.")
    budgets: Budgets = Field(description="Bytes per tier that the policy was tuned for.")
    tiers: Tiers = Field(default=Tiers(), description="Which rule governs each tier.")
    rank: RankSection | None = Field(
        default=None,
        description="Knobs of the tiers whose policy is rank: evict the block with the smallest "
        "last_access + w * (log2(frequency) + cost_weight * log2(seconds at stake)).",
    )
    costs: Costs = Field(description="What recompute and transfer cost; every decision is computed from these figures.")
    prices: Prices = Field(
        default=Prices(),
        description="Prices of a byte. KEEP if V_device - price * size is the largest; OFFLOAD if V_host - price * "
        "size is at least 0; EVICT otherwise. V_device = P * recompute; V_host = P * max(0, recompute - load) - store.",
    )
    streaming: Streaming | None = Field(default=None, description="Streaming of running requests' KV, if any.")
    hints: Hints | None = Field(default=None, description="Hints of clients that may be used, if any.")
    expectation: Expectation | None = Field(default=None, description="What the policy promises, and how sure it is.")
    provenance: Provenance | None = Field(default=None, description="Where it came from: enough to run it again.")
    rollback: Text = Field(default=ROLLBACK, description="How to undo it.")
    lease: Lease | None = Field(
        default=None, description="For a trial: until when it holds, and what holds afterwards. Absent = for good."
    )

    @model_validator(mode="after")
    def _says_what_it_is(self, info: ValidationInfo) -> PolicyDocument:
        if info.mode == "json" and "schema_id" not in self.model_fields_set:
            raise BrokenRuleError("schema must be given", remedy=f"write 'schema: {SCHEMA_ID}'")
        return self

    @model_validator(mode="after")
    def _sections_agree(self) -> PolicyDocument:
        check_reader(self.min_reader)
        if self.costs.kv_bytes_per_token != self.fingerprint.kv_bytes_per_token:
            raise BrokenRuleError(
                "costs.kv_bytes_per_token must equal fingerprint.kv_bytes_per_token",
                got=f"{self.costs.kv_bytes_per_token} and {self.fingerprint.kv_bytes_per_token}",
            )
        for tier in Tier:
            self._check_tier(tier)
        self._check_write_budget()
        return self

    def _check_write_budget(self) -> None:
        host = self.tiers.host
        if self.budgets.host_write is not None and (host is None or host.policy != "class_hazard"):
            raise BrokenRuleError(
                "budgets.host_write is kept by tiers.host.policy 'class_hazard' and by no other",
                got="no host" if host is None else f"policy {host.policy!r}",
                remedy="leave budgets.host_write away",
            )

    def _check_tier(self, tier: Tier) -> None:
        name = tier.name.lower()
        rule, knobs = self.tiers.of(tier), self.rank.of(tier) if self.rank else None
        if (rule is not None) != (self.budgets.of(tier) > 0):
            raise BrokenRuleError(
                f"tiers.{name} and budgets.{name}_bytes must agree on whether the tier exists",
                got=f"{'a rule' if rule else 'null'} and {self.budgets.of(tier)} bytes",
            )
        if (rule is not None and rule.policy == "rank") != (knobs is not None):
            raise BrokenRuleError(
                f"tiers.{name}.policy is 'rank' exactly where rank.{name} has knobs",
                got=f"policy {rule.policy if rule else None!r} and {'knobs' if knobs else 'no knobs'}",
            )
        if rule is not None and rule.policy == "class_hazard" and self.kind != "class_hazard":
            raise BrokenRuleError(
                f"tiers.{name}.policy is 'class_hazard' only in a policy of that kind", got=f"kind {self.kind!r}"
            )


class LruDocument(PolicyDocument):
    """Least recently used everywhere: the engine's own rule, with budgets and modes."""

    kind: Literal["lru"] = Field(default="lru", description=PolicyDocument.model_fields["kind"].description)

    @model_validator(mode="after")
    def _ranks_nothing(self) -> LruDocument:
        if self.rank is not None:
            raise BrokenRuleError("kind 'lru' has no section 'rank'", got="one", remedy="use kind 'rank'")
        return self


class RankDocument(PolicyDocument):
    """At least one tier evicts by the rank rule."""

    kind: Literal["rank"] = Field(default="rank", description=PolicyDocument.model_fields["kind"].description)
    rank: RankSection = Field(description=PolicyDocument.model_fields["rank"].description)

    @model_validator(mode="after")
    def _ranks_something(self) -> RankDocument:
        if all(self.rank.of(tier) is None for tier in Tier):
            raise BrokenRuleError("kind 'rank' ranks at least one tier", got="no knobs", remedy="use kind 'lru'")
        return self


class ClassHazardDocument(PolicyDocument):
    """At least one tier evicts by what a learned model expects."""

    min_reader: int = Field(
        default=CLASS_HAZARD_READER,
        ge=CLASS_HAZARD_READER,
        le=1000,
        description=PolicyDocument.model_fields["min_reader"].description,
    )
    kind: Literal["class_hazard"] = Field(
        default="class_hazard", description=PolicyDocument.model_fields["kind"].description
    )
    class_hazard: ClassHazardSection = Field(
        description="Knobs and model of the tiers whose policy is class_hazard: evict the block that saves the fewest "
        "expected seconds per block-second from now on."
    )

    @model_validator(mode="after")
    def _learned_tiers(self) -> ClassHazardDocument:
        if self.rank is not None:
            raise BrokenRuleError("kind 'class_hazard' has no section 'rank'", got="one", remedy="use kind 'rank'")
        learned = [tier for tier in Tier if (rule := self.tiers.of(tier)) and rule.policy == "class_hazard"]
        if not learned or Tier.DISK in learned:
            raise BrokenRuleError(
                "kind 'class_hazard' governs the device, the host or both, and no other tier",
                got=", ".join(tier.name.lower() for tier in learned) or "none of them",
            )
        self._check_prices(learned)
        return self

    def _check_prices(self, learned: list[Tier]) -> None:
        prices = self.class_hazard.prices
        priced = [] if prices is None else [tier for tier in Tier if prices.of(tier) is not None]
        if priced and priced != learned:
            raise BrokenRuleError(
                "class_hazard.prices has a price for each tier that the rule governs, and for no other",
                got=", ".join(tier.name.lower() for tier in priced),
            )


class Lease(Strict):
    """A trial that ends by itself: without a renewal the engine returns to ``fallback``."""

    expires_at: UtcTime = Field(description="When the trial ends unless it is renewed, in UTC.")
    renew_s: float = Field(gt=0.0, le=MAX_SECONDS, description="How often it is renewed, in seconds.")
    fallback: Annotated[LruDocument | RankDocument | ClassHazardDocument, Field(discriminator="kind")] = Field(
        description="The confirmed policy that holds afterwards; has no lease itself."
    )

    @model_validator(mode="after")
    def _fallback_is_confirmed(self) -> Lease:
        if self.fallback.lease is not None:
            raise BrokenRuleError("lease.fallback must be a policy without a lease", got="one with a lease")
        return self


def check_reader(min_reader: int) -> None:
    """Refuse a document that needs a newer reader.

    Raises:
        BrokenRuleError: it does.
    """
    if min_reader > READER_VERSION:
        raise BrokenRuleError(
            f"this reader is version {READER_VERSION}",
            got=f"min_reader {min_reader}",
            remedy="install a newer kv-autotune",
        )


PolicyDocument.model_rebuild()
LruDocument.model_rebuild()
RankDocument.model_rebuild()
ClassHazardDocument.model_rebuild()
Lease.model_rebuild()
