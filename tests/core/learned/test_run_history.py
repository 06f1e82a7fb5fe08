"""The past of blocks by run: what it tells, what it forgets, and how much it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide import features as f
from autotune.core.learned import RequestFacts, Run, RunHistory

S = 1_000_000_000
FACTS = RequestFacts(input_tokens=40)


def history(max_blocks: int = 1000, forget_s: float = 1e6) -> RunHistory[str]:
    """A past with blocks of 10 tokens."""
    return RunHistory(10, max_blocks, forget_s)


def test_blocks_that_share_their_history_share_a_run() -> None:
    """A prompt that goes on from another one has two runs: what both used, and what is new."""
    past = history()
    past.observe("abc", FACTS, 0, 5 * S)
    (old, new) = past.observe("abcd", FACTS, 65 * S, 70 * S)
    assert (old.first, old.end, new.first, new.end) == (0, 3, 3, 4)
    assert past.run_of("a") is past.run_of("c") is old.run
    assert old.run.features[f.USES] == 2
    assert old.run.features[f.GAP_S] == 60.0
    assert old.run.features[f.RECENT_60] == 1.0 + 0.5 ** (65 / 60)
    assert new.run.features[f.GAP_S] == f.UNKNOWN
    assert new.run.features[f.DEPTH_TOKENS] == 30.0
    assert new.run.features[f.USES_TO_PARENT] == 0.5


def test_a_chain_goes_on_from_the_last_whole_block_of_the_request_before() -> None:
    """The turn counts up where a prompt holds the whole of the one before, and begins anew at a branch."""
    past = history()
    past.observe("abcd", FACTS, 0, S)
    (_, second) = past.observe("abcde", RequestFacts(input_tokens=55), 11 * S, 12 * S)
    (_, branch) = past.observe("abx", FACTS, 20 * S, 21 * S)
    assert second.run.features[f.TURN] == 1
    assert second.run.features[f.CHAIN_GAP_S] == 10.0
    assert second.run.features[f.GROWTH_TOKENS] == 15.0
    assert branch.run.features[f.TURN] == 0
    assert branch.run.features[f.CHAIN_GAP_S] == f.UNKNOWN
    assert branch.run.features[f.SIBLINGS] == 2.0  # c and x continue b


def test_what_clients_told_is_among_the_features() -> None:
    """Hints, generated tokens and the end of generation stand where the model looks for them."""
    facts = RequestFacts(40, output_tokens=7, stop=2, session_end=1, expected_idle_s=30.0, priority=4)
    ((_, _, run),) = history().observe("abcd", facts, 0, S)
    told = [run.features[i] for i in (f.OUTPUT_TOKENS, f.STOP_CODE, f.SESSION_END, f.EXPECTED_IDLE_S, f.PRIORITY)]
    assert told == [7.0, 2.0, 1.0, 30.0, 4.0]


def test_generated_blocks_follow_the_last_run_and_are_new_to_the_next_prompt() -> None:
    """The engine caches what it generated before any prompt holds it; the simulator has never seen such a block."""
    past = history()
    past.observe("ab", FACTS, 0, S, generated="cd")
    assert past.run_of("c") is past.run_of("d") is past.run_of("b")
    (known, new) = past.observe("abcd", FACTS, 5 * S, 6 * S)
    assert (known.end, new.first, new.run.uses) == (2, 2, 1)
    assert past.run_of("d") is new.run


def test_an_old_block_counts_as_new() -> None:
    """What was not used for longer than is remembered has no history any more."""
    past = history(forget_s=10.0)
    past.observe("ab", FACTS, 0, S)
    assert past.observe("ab", FACTS, 11 * S, 12 * S)[0].run.uses == 2
    assert past.observe("ab", FACTS, 23 * S, 24 * S)[0].run.uses == 1


def test_the_block_that_was_used_longest_ago_is_forgotten_first() -> None:
    """Within a request that is the deepest one, so that what is left is always a usable prefix."""
    past = history(max_blocks=4)
    past.observe("abc", FACTS, 0, S)
    past.observe("xy", FACTS, S, 2 * S)
    assert [key for key in "abcxy" if past.run_of(key) is not None] == list("abxy")


def test_a_smaller_bound_takes_effect_little_by_little() -> None:
    """No single request pays for a bound that fell far."""
    past = history()
    past.observe([str(i) for i in range(100)], FACTS, 0, S)
    past.limit_to(10)
    sizes = []
    for i in range(60):
        past.observe([f"new {i}"], FACTS, S, 2 * S)
        sizes.append(len(past))
    assert sizes[0] == 99
    assert sizes[-1] <= 41
    assert sizes == sorted(sizes, reverse=True)


@given(st.lists(st.tuples(st.text("abc", max_size=5), st.integers(0, 3)), max_size=30), st.integers(1, 8))
def test_no_more_is_remembered_than_the_bound(requests: list[tuple[str, int]], max_blocks: int) -> None:
    """Blocks stay within the bound, and runs with them, whatever comes."""
    past, now_ns = history(max_blocks), 0
    names = set()
    for text, wait_s in requests:
        keys = [text[: n + 1] for n in range(len(text))]
        names.update(keys)
        now_ns += wait_s * S
        spans = past.observe(keys, FACTS, now_ns, now_ns)
        assert [span.first for span in spans[1:]] == [span.end for span in spans[:-1]]
        assert len(past) <= max_blocks
    runs: set[Run] = {run for key in names if (run := past.run_of(key)) is not None}
    assert len(runs) <= max_blocks
