"""Integer codes of the policies that have a compiled twin, as stored in ``ints[KIND]`` of a tier's state."""

from __future__ import annotations

FIFO, LRU, SIEVE, S3FIFO, ARC, WTINYLFU, TWO_HIT, JOINT_LRU = range(8)
LFU, LRFU, GDSF, CLAIRVOYANT, CLAIRVOYANT_SECONDS, RANK, CLASS_HAZARD = range(16, 23)

CODES = {
    "fifo": FIFO,
    "lru": LRU,
    "sieve": SIEVE,
    "s3fifo": S3FIFO,
    "arc": ARC,
    "wtinylfu": WTINYLFU,
    "two_hit": TWO_HIT,
    "lfu": LFU,
    "lrfu": LRFU,
    "gdsf": GDSF,
    "clairvoyant": CLAIRVOYANT,
    "clairvoyant_seconds": CLAIRVOYANT_SECONDS,
    "rank": RANK,
    "class_hazard": CLASS_HAZARD,
}
CLAIRVOYANTS = frozenset({"clairvoyant", "clairvoyant_seconds"})
