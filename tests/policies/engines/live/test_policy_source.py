"""A policy file is noticed however it is published, once per edit, and what was in force outlives every error."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.core.errors import PolicyError
from autotune.core.policy import PolicyDocument, document_hash, parse
from autotune.export.document import render
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document, policy_documents
from autotune_policies.engines.live import watched_file
from autotune_policies.engines.live.matching import check_match
from autotune_policies.engines.live.source import EngineFacts, PolicyChange, PolicyOutcome, PolicySource
from autotune_policies.engines.live.versions import engine_of, is_within

ENGINE = EngineFacts("vllm", "0.32.0", ("llama-3.1-8b",), 131_072)
ANY_ENGINE = EngineFacts("vllm", "0.32.0")
LOOK_S = 0.2


def text_of(weight: float) -> str:
    """A policy document with this cost weight, as YAML; texts of equal weights are equal, and all are of one length."""
    assert 0.1 <= weight < 1.0
    document = example_document()
    assert document.rank.host is not None
    knobs = document.rank.host.model_copy(update={"cost_weight": weight})
    return render(document.model_copy(update={"rank": document.rank.model_copy(update={"host": knobs})}))


A, B, C = text_of(0.25), text_of(0.75), text_of(0.35)


def weight_in(document: PolicyDocument | None) -> float | None:
    """The cost weight that tells the documents of these tests apart."""
    return (
        None
        if document is None or document.rank is None or document.rank.host is None
        else (document.rank.host.cost_weight)
    )


class Watch:
    """A source and the clock that drives it."""

    def __init__(self, path: Path | None, engine: EngineFacts = ENGINE) -> None:
        self.clock = ManualClock()
        self.source = PolicySource(path, engine, self.clock)

    def poll(self, after_s: float = LOOK_S) -> PolicyChange | None:
        """What a poll finds after some time."""
        return self.source.poll(self.clock.advance(after_s))

    def outcomes(self, n_polls: int) -> list[PolicyOutcome]:
        """What that many polls find, those left out that find nothing."""
        changes = [self.poll() for _ in range(n_polls)]
        return [change.outcome for change in changes if change is not None]


def rename(path: Path, text: str) -> None:
    """Publish as this project does: a new file takes the name."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def write_in_place(path: Path, text: str) -> None:
    """Publish as an editor or a shell does: the same file gets other bytes."""
    with path.open("r+" if path.exists() else "w") as file:
        file.write(text)
        file.truncate()


def switch_link(path: Path, text: str) -> None:
    """Publish as Kubernetes does with a ConfigMap: ``..data`` is switched to a new folder."""
    folders = path.parent / f"..{len(list(path.parent.iterdir()))}"
    folders.mkdir()
    (folders / path.name).write_text(text)
    link = path.parent / "..data_tmp"
    link.symlink_to(folders.name)
    link.replace(path.parent / "..data")
    if not path.is_symlink():
        path.unlink(missing_ok=True)
        path.symlink_to(f"..data/{path.name}")


def write_within_a_tick(path: Path, text: str) -> None:
    """Publish in place so fast that the file system's clock shows no difference, and no size does."""
    before = path.stat() if path.exists() else None
    write_in_place(path, text)
    if before is not None:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove_and_create(path: Path, text: str) -> None:
    """Publish as some tools do: there is no file for a moment."""
    path.unlink(missing_ok=True)
    path.write_text(text)


PUBLISH = [rename, write_in_place, switch_link, write_within_a_tick, remove_and_create]


@pytest.mark.parametrize("publish", PUBLISH)
def test_a_replaced_file_is_noticed_at_the_next_look(tmp_path: Path, publish: Callable[[Path, str], None]) -> None:
    """One poll after each edit brings the new policy, later polls bring nothing more."""
    path = tmp_path / "policy.yaml"
    publish(path, A)
    watch = Watch(path)
    for text, weight in ((A, 0.25), (B, 0.75), (C, 0.35), (A, 0.25)):
        publish(path, text)
        change = watch.poll()
        assert change is not None
        assert change.outcome is PolicyOutcome.NEW_POLICY
        assert weight_in(change.document) == weight
        assert change.policy_hash == document_hash(parse(text)) == watch.source.policy_hash
        assert watch.outcomes(60) == []


@pytest.mark.parametrize("publish", PUBLISH)
def test_edits_between_quiet_times_are_noticed(tmp_path: Path, publish: Callable[[Path, str], None]) -> None:
    """A file that has long been quiet is noticed just as fast as one edited a moment ago."""
    path = tmp_path / "policy.yaml"
    publish(path, A)
    watch = Watch(path)
    assert watch.poll() is not None
    assert watch.outcomes(100) == []
    publish(path, B)
    assert watch.outcomes(1) == [PolicyOutcome.NEW_POLICY]


def test_a_change_that_leaves_no_trace_in_the_inode_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even the inode's time of change stays (a coarse clock), a young file is read again, an old one in 10 s."""
    frozen = watched_file._Identity(1, 1, 1, 1, 1)
    monkeypatch.setattr(watched_file._Identity, "of", lambda status: frozen)
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    assert watch.outcomes(1) == [PolicyOutcome.NEW_POLICY]
    path.write_text(B)
    assert watch.outcomes(1) == [PolicyOutcome.NEW_POLICY]
    assert watch.outcomes(15) == []
    path.write_text(C)  # three seconds after it was first seen: no longer young
    assert watch.outcomes(55) == [PolicyOutcome.NEW_POLICY]


def test_looks_are_rationed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a busy engine polls, the file is looked at five times a second, and hardly ever read."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    looks: list[str] = []
    reads: list[str] = []
    real_stat, real_open = Path.stat, os.open

    def stat(self: Path) -> os.stat_result:
        looks.append(str(self))
        return real_stat(self)

    def open_file(name: Path, flags: int) -> int:
        reads.append(str(name))
        return real_open(name, flags)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "open", open_file)
    watch = Watch(path)
    for _ in range(20_000):
        watch.poll(after_s=0.001)
    assert looks.count(str(path)) == 100  # 20 s
    assert reads.count(str(path)) <= 14  # while young: 2 s; afterwards every 10 s


def test_a_comment_confirms_and_changes_no_rules(tmp_path: Path) -> None:
    """An edit that says the same is reported, but not as another policy."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    watch.poll()
    path.write_text(A + "# reviewed\n")
    change = watch.poll()
    assert change is not None
    assert change.outcome is PolicyOutcome.CONFIRMED
    assert not change.outcome.changes_rules
    assert change.policy_hash == document_hash(parse(A))


@pytest.mark.parametrize("text", ["", "kind: rank", "a: [", "\x00", A.replace("llama-3.1-8b", "qwen3-8b"), A + A])
def test_a_bad_file_keeps_the_old_policy_and_is_told_once(tmp_path: Path, text: str) -> None:
    """A later error changes nothing in force; the same bytes are reported once, a repaired file is taken."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    watch.poll()
    path.write_text(text)
    change = watch.poll()
    assert change is not None
    assert change.outcome is PolicyOutcome.REJECTED
    assert str(path) in change.reason
    assert weight_in(change.document) == weight_in(watch.source.document) == 0.25
    assert watch.outcomes(60) == []
    path.write_text(B)
    assert watch.outcomes(2) == [PolicyOutcome.NEW_POLICY]


@pytest.mark.parametrize(
    "engine",
    [
        EngineFacts("vllm", "0.32.0", ("qwen3-8b",), 131_072),
        EngineFacts("vllm", "0.32.0", ("llama-3.1-8b",), 65_536),
        EngineFacts("vllm", "0.99.0", ("llama-3.1-8b",), 131_072),
        EngineFacts("vllm", "unknown", ("llama-3.1-8b",), 131_072),
    ],
)
def test_a_file_for_another_engine_means_stock_lru_at_the_start(tmp_path: Path, engine: EngineFacts) -> None:
    """Another model, other bytes per token or an unknown version leave the engine's own LRU, with the reason."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    change = Watch(path, engine).poll()
    assert change is not None
    assert (change.outcome, change.document, change.policy_hash) == (PolicyOutcome.REJECTED, None, "none")
    assert "the engine's own LRU" in str(change)
    assert change.outcome.is_trouble


def test_a_missing_file_is_told_once_and_taken_when_it_comes(tmp_path: Path) -> None:
    """At the start it means stock LRU; later the old policy stays; each disappearance is told once."""
    path = tmp_path / "folder" / "policy.yaml"
    watch = Watch(path)
    first = watch.poll()
    assert first is not None
    assert (first.outcome, first.document) == (PolicyOutcome.MISSING, None)
    assert watch.outcomes(20) == []
    path.parent.mkdir()
    path.write_text(A)
    assert watch.outcomes(5) == [PolicyOutcome.NEW_POLICY]
    for _ in range(2):
        path.unlink()
        gone = [watch.poll() for _ in range(20)]
        assert [(change.outcome, weight_in(change.document)) for change in gone if change] == [
            (PolicyOutcome.MISSING, 0.25)
        ]
        path.write_text(A)
        assert watch.outcomes(20) == []


def test_a_folder_that_became_a_file_means_missing(tmp_path: Path) -> None:
    """Where a part of the path is no folder any more, there is no policy file."""
    watch = Watch(tmp_path / "folder" / "policy.yaml")
    (tmp_path / "folder").write_text("")
    assert watch.outcomes(10) == [PolicyOutcome.MISSING]


def test_no_path_is_a_missing_policy(tmp_path: Path) -> None:
    """An engine without policy_file says so once and stays with its own LRU."""
    watch = Watch(None)
    assert watch.outcomes(10) == [PolicyOutcome.MISSING]
    assert watch.source.document is None


def test_what_is_no_readable_file_is_refused_once(tmp_path: Path) -> None:
    """A folder, a FIFO (which must not block), a circle of links and a giant file are refusals, told once each."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    watch.poll()
    makers: list[tuple[str, Callable[[], object]]] = [
        ("regular file", path.mkdir),
        ("regular file", lambda: os.mkfifo(path)),
        ("links", lambda: path.symlink_to(path.name)),
        ("at most", lambda: path.write_bytes(b"#" * (watched_file.MAX_POLICY_BYTES + 1))),
    ]
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    for word, make in makers:
        path.rmdir() if path.is_dir() else path.unlink()
        make()
        changes = [change for _ in range(30) if (change := watch.poll())]
        assert [(change.outcome, word in change.reason) for change in changes] == [(PolicyOutcome.REJECTED, True)]
        assert weight_in(watch.source.document) == 0.25
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


def test_half_a_file_is_refused_until_it_is_whole(tmp_path: Path) -> None:
    """A file torn by writing in place is rejected once, and accepted when the rest has come."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    watch.poll()
    with path.open("w") as file:
        file.write(B[: len(B) // 2])
        file.flush()
        assert watch.outcomes(3) == [PolicyOutcome.REJECTED]
        assert weight_in(watch.source.document) == 0.25
        file.write(B[len(B) // 2 :])
    assert watch.outcomes(3) == [PolicyOutcome.NEW_POLICY]
    assert weight_in(watch.source.document) == 0.75


def test_a_fault_of_our_own_becomes_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception does not leave the poll, and its text is the reason."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    monkeypatch.setattr(watched_file.WatchedFile, "look", lambda self, now_ns: 1 // 0)
    change = watch.poll()
    assert change is not None
    assert change.outcome is PolicyOutcome.REJECTED
    assert "ZeroDivisionError" in change.reason
    assert watch.outcomes(10) == []


@pytest.mark.parametrize("publish", [rename, write_in_place])
def test_polling_while_another_thread_writes_only_ever_brings_whole_policies(
    tmp_path: Path, publish: Callable[[Path, str], None]
) -> None:
    """Under a writer that never rests, what is in force is one of the texts written, and the last one wins."""
    path = tmp_path / "policy.yaml"
    path.write_text(A)
    watch = Watch(path)
    watch.poll()
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            publish(path, B)
            publish(path, A)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        for _ in range(300):
            change = watch.poll()
            assert weight_in(watch.source.document) in {0.25, 0.75}
            assert change is None or change.outcome in set(PolicyOutcome) - {PolicyOutcome.LEASE_EXPIRED}
    finally:
        stop.set()
        writer.join()
    publish(path, C)
    watch.poll()
    assert weight_in(watch.source.document) == 0.35


VALID = st.sampled_from([A, B, C]).map(str.encode)
CUT = st.tuples(VALID, st.integers(0, len(A))).map(lambda cut: cut[0][: cut[1]])
FLIPPED = st.tuples(VALID, st.integers(0, len(A) - 1), st.integers(0, 255)).map(
    lambda flip: flip[0][: flip[1]] + bytes([flip[2]]) + flip[0][flip[1] + 1 :]
)
CONTENT = st.none() | VALID | CUT | FLIPPED | st.binary(max_size=200) | st.text(max_size=200).map(str.encode)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CONTENT, max_size=12))
def test_whatever_the_file_holds_the_policy_in_force_was_valid(tmp_path: Path, contents: list[bytes | None]) -> None:
    """Polls never raise, and what is in force is the last content that was a valid policy for this engine."""
    path = tmp_path / "policy.yaml"
    path.unlink(missing_ok=True)
    watch = Watch(path)
    expected: str | None = None
    for content in contents:
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
            expected = _hash_if_valid(content) or expected
        watch.poll()
        assert watch.source.policy_hash == (expected or "none")


def _hash_if_valid(content: bytes) -> str | None:
    """Hash of the document in these bytes, if it is one for this engine; judged without any source."""
    try:
        document = parse(content.decode())
        check_match(document, ENGINE)
    except (UnicodeDecodeError, PolicyError):
        return None
    return document_hash(document)


@given(policy_documents())
def test_any_valid_document_with_a_host_is_taken(
    tmp_path_factory: pytest.TempPathFactory, document: PolicyDocument
) -> None:
    """Where the engine's facts are unknown, every document that has rules for a host is taken as it is."""
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    confirmed = document.model_copy(update={"lease": None})
    path.write_text(render(confirmed))
    change = Watch(path, ANY_ENGINE).poll()
    assert change is not None
    ranges = document.fingerprint.engines
    is_meant = not ranges or any(engine_of(one) == "vllm" and is_within("0.32.0", one) for one in ranges)
    assert change.document == (confirmed if is_meant and document.tiers.host is not None else None)


def test_a_large_file_is_read_beside_the_scheduler(tmp_path: Path) -> None:
    """The first policy is there at once; a later one is obeyed once it has been read, and no poll waits for that."""
    watch = Watch(tmp_path / "policy.yaml")
    padding = "\n# " + "x" * 70_000
    (tmp_path / "policy.yaml").write_text(A + padding)
    first = watch.poll()
    assert first is not None
    assert weight_in(first.document) == 0.25
    (tmp_path / "policy.yaml").write_text(B + padding)
    for _ in range(10_000):
        change = watch.poll()
        if change is not None:
            break
        assert weight_in(watch.source.document) == 0.25
        time.sleep(0.001)
    assert change is not None
    assert change.outcome is PolicyOutcome.NEW_POLICY
    assert weight_in(watch.source.document) == 0.75


def test_a_large_file_that_is_broken_changes_nothing(tmp_path: Path) -> None:
    """What the thread found wrong is told as for any file, once."""
    watch = Watch(tmp_path / "policy.yaml")
    (tmp_path / "policy.yaml").write_text(A)
    watch.poll()
    (tmp_path / "policy.yaml").write_text("kind: nonsense\n# " + "x" * 70_000)
    told = []
    for _ in range(200):
        told.append(watch.poll())
        time.sleep(0.001)
    assert [change.outcome for change in told if change is not None] == [PolicyOutcome.REJECTED]
    assert weight_in(watch.source.document) == 0.25
