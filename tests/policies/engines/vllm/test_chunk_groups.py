"""Which chunks belong together in a model whose layers form several KV-cache groups."""

from __future__ import annotations

from autotune_policies.engines.vllm.groups import ChunkGroups


def key(name: bytes, group: int) -> bytes:
    """A key of a group."""
    return name.ljust(32, b".") + group.to_bytes(4, "big")


class Positions:
    """A request's context that knows where its keys end."""

    def __init__(self, positions: dict[bytes, int]) -> None:
        self._positions = positions

    def get_offload_key_position(self, one: bytes) -> int | None:
        """Token at which a chunk ends."""
        return self._positions.get(one)


def test_a_single_group_is_taken_for_full_attention() -> None:
    """With one group, chunks form chains and have no siblings."""
    groups = ChunkGroups({0: 16}, None)
    assert groups.is_chained(key(b"a", 0))
    assert not groups.has_siblings


def test_of_several_groups_none_is_taken_for_one_until_told() -> None:
    """With several groups and nothing told, no chunk is tied to another."""
    groups = ChunkGroups({0: 16, 1: 16}, None)
    assert not groups.is_chained(key(b"a", 0))
    assert not groups.has_siblings
    groups.tell_full_attention([1])
    assert groups.is_chained(key(b"a", 1))
    assert not groups.is_chained(key(b"a", 0))
    assert groups.has_siblings


def test_siblings_end_at_the_same_token() -> None:
    """The siblings of a chunk have its hash in every other group."""
    groups = ChunkGroups({0: 16, 1: 16, 2: 16}, [0])
    assert groups.siblings_of(key(b"a", 1)) == [key(b"a", 0), key(b"a", 2)]


def test_groups_are_merged_by_position() -> None:
    """Chunks of all groups stand in the order of the tokens at which they end."""
    wide, narrow = [key(b"w1", 0), key(b"w2", 0)], [key(b"n1", 1), key(b"n2", 1)]
    positions = {wide[0]: 32, wide[1]: 64, narrow[0]: 16, narrow[1]: 48}
    order = ChunkGroups.in_order([wide, narrow], Positions(positions))
    assert order == [narrow[0], wide[0], narrow[1], wide[1]]


def test_without_positions_the_order_is_kept() -> None:
    """Where the engine tells no positions, chunks stay in the order of their groups."""
    keys = [[key(b"a", 0)], [key(b"a", 1)]]
    assert ChunkGroups.in_order(keys, Positions({})) == [key(b"a", 0), key(b"a", 1)]
