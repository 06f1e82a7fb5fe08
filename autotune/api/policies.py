"""A policy document with what people do with one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.advise.verify import Verification
from autotune.advise.verify import verify as verify_document
from autotune.core import policy as documents
from autotune.core.policy import Explanation, PolicyDocument
from autotune.core.trace import Trace
from autotune.export import Change, Export, Flavor, export_policy, render, save
from autotune.export import diff as diff_documents


class Policy:
    """A policy document with what people do with one.

    >>> from autotune.testing.documents import example_document
    >>> policy = Policy(example_document())
    >>> policy.document.kind
    'rank'
    """

    def __init__(self, document: PolicyDocument) -> None:
        self.document = document

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read and validate a policy file.

        Raises:
            PolicyError: the file is missing or breaks a rule of the schema.
        """
        return cls(documents.load(Path(path)))

    def save(self, path: str | Path) -> None:
        """Write the policy as commented YAML, all of it or nothing."""
        save(self.document, Path(path))

    def to_yaml(self) -> str:
        """The policy as commented YAML."""
        return render(self.document)

    def diff(self, other: Policy) -> list[Change]:
        """What changes from this policy to the other."""
        return diff_documents(self.document, other.document)

    def export(
        self,
        path: str | Path,
        engine: str = "vllm",
        *,
        flavor: Flavor | None = None,
        block_tokens: int | None = None,
        ranks: int = 1,
        disk_dir: str | Path | None = None,
        batch_size: int | None = None,
    ) -> Export:
        """The native settings with which an engine obeys the policy.

        Args:
            path: Where the engine will find the policy file.
            engine: Name of a registered renderer.
            flavor: All that our plug-in obeys, or what the engine can do by itself; None = the first where there is
                a plug-in for this engine.
            block_tokens: Tokens per block of the engine, where known.
            ranks: Processes of one engine that share its KV cache: tensor-parallel times pipeline-parallel size.
            disk_dir: Folder of the disk tier on the engine's machine.
            batch_size: Sequences per batch, for engines that place whole sequences.

        Raises:
            AutotuneError: there is no such engine, or the policy cannot be rendered for it.
        """
        return export_policy(
            self.document,
            Path(path),
            engine,
            flavor=flavor,
            block_tokens=block_tokens,
            ranks=ranks,
            disk_dir=None if disk_dir is None else Path(disk_dir),
            batch_size=batch_size,
        )

    def explain(
        self,
        *,
        depth_tokens: int,
        frequency: float,
        age_s: float = 0.0,
        size_tokens: int | None = None,
        features: Mapping[str, float] | None = None,
    ) -> Explanation:
        """Value, price and decision for a block.

        Args:
            depth_tokens: Tokens of the prompt before it.
            frequency: How often it was asked for, the last time included.
            age_s: Seconds since the last time.
            size_tokens: Tokens in it; those of the trace's blocks if not given.
            features: What else is known of it, by name, for a learned policy.
        """
        size = size_tokens or self.document.fingerprint.trace_block_tokens
        return documents.explain(
            self.document,
            depth_tokens=depth_tokens,
            frequency=frequency,
            age_s=age_s,
            size_tokens=size,
            features=features,
        )

    def verify(self, trace: Trace | str | None = None) -> Verification:
        """Simulate the policy and LRU again and compare with what the policy promises.

        Args:
            trace: A trace, or ``FORMAT:PATH``; the bundled sample that the policy was judged on if not given.

        Raises:
            AutotuneError: the policy promises nothing, or the requests are not at hand.
        """
        return verify_document(self.document, Trace.open(trace) if isinstance(trace, str) else trace)
