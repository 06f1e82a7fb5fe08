"""Figures of the status as people read them in a terminal; what is not known is a dash, never a zero."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from autotune.daemon.status import HostStatus

UNKNOWN = "–"
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_SECONDS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"), (7200.0, 1 / 60, "min"))
_SUFFIX = re.compile(r"_(frac|bytes_per_s|bytes|s|tokens|blocks)$")
_CAPITALS = {name.lower(): name for name in ("TTFT", "ITL", "LRU", "ARC", "KV", "H2D", "D2H")}


def figure(value: float | None) -> str:
    """About three significant figures."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size and not 1e-3 <= size < 1e9:
        return f"{value:.2e}".replace("-", "−")
    decimals = max(0, 2 - math.floor(math.log10(size))) if size else 0
    text = f"{value:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def percent(value: float | None) -> str:
    """A share in percent."""
    return UNKNOWN if value is None else f"{figure(round(100.0 * value, 1))} %"


def seconds(value: float | None) -> str:
    """A time in the unit that fits it."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    for limit, factor, unit in _SECONDS:
        if size < limit and (size or unit == "ms"):
            return f"{figure(value * factor)} {unit}"
    return f"{figure(value / 3600.0)} h" if size < 172_800.0 else f"{figure(value / 86_400.0)} d"


def size(value: float | None) -> str:
    """Bytes in the unit that fits them."""
    if value is None:
        return UNKNOWN
    power = 0
    while abs(value) >= 1024.0 and power < len(_BYTES) - 1:
        value, power = value / 1024.0, power + 1
    return f"{figure(value)} {_BYTES[power]}"


def by_unit(value: float | None, unit: str) -> str:
    """A figure with the unit that the status names."""
    known = {"s": seconds, "frac": percent, "1": percent, "bytes": size}.get(unit)
    if known is not None:
        return known(value)
    if unit.startswith("s/"):
        return UNKNOWN if value is None else seconds(value) + unit[1:]
    if unit == "bytes/s":
        return UNKNOWN if value is None else f"{size(value)}/s"
    return figure(value) if value is None or not unit else f"{figure(value)} {unit}"


def by_name(name: str, value: float | None) -> str:
    """A figure whose name ends in its unit."""
    found = _SUFFIX.search(name)
    return by_unit(value, {"bytes_per_s": "bytes/s"}.get(found[1], found[1]) if found else "")


def words(name: str) -> str:
    """``ttft_p95_s`` as ``TTFT p95``."""
    text = _SUFFIX.sub("", name).replace("_s_per_", "_per_")
    spelled = " ".join(_CAPITALS.get(part, part) for part in text.split("_"))
    return spelled[:1].upper() + spelled[1:]


def plain(text: str) -> str:
    """Text from outside without what a terminal would obey: controls and marks of direction are shown as ``�``."""
    return "".join(character if character.isprintable() else "�" for character in text)


def machine_words(host: HostStatus) -> Iterator[str]:
    """What is known of a machine, part by part."""
    if host.memory_bytes is not None:
        yield f"{size(host.available_bytes)} of {size(host.memory_bytes)} of memory to be had"
    if host.limit_bytes is not None:
        yield f"control group {size(host.used_bytes)} of {size(host.limit_bytes)}"
    if host.shm_bytes is not None:
        yield f"/dev/shm {size(host.shm_used_bytes)} of {size(host.shm_bytes)}"
    if host.pinnable_bytes is not None:
        yield f"a process may pin {size(host.pinnable_bytes)}"
    if host.numa_nodes is not None:
        yield f"{host.numa_nodes} NUMA node{'s' if host.numa_nodes > 1 else ''}"
    if host.link_bytes_per_s is not None:
        yield f"slowest link {size(host.link_bytes_per_s)}/s"


def gauge(frac: float | None, width: int = 12) -> str:
    """A share as a bar of blocks, an eighth fine."""
    if frac is None:
        return "·" * width
    eighths = round(8 * width * min(1.0, max(0.0, frac)))
    full, rest = divmod(eighths, 8)
    return ("█" * full + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[rest]).ljust(width)
