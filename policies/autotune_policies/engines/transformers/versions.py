"""Which Transformers this package works with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from autotune.core.errors import StreamingError

# The cache's seams (layer classes, update, crop, reorder) change between minor versions; the tests run in both ends.
OLDEST: Final = (5, 0)
NEWEST: Final = (5, 24)


def require_supported(installed: str | None = None) -> None:
    """Refuse a Transformers outside the tested range.

    Args:
        installed: Its version; None asks the environment.

    Raises:
        StreamingError: it is older or newer, or there is none.
    """
    rule = f"the streaming cache works with Transformers {_text(OLDEST)} to {_text(NEWEST)}"
    remedy = f"pip install 'transformers>={_text(OLDEST)},<{NEWEST[0]}.{NEWEST[1] + 1}' torch"
    try:
        found = installed if installed is not None else version("transformers")
    except PackageNotFoundError as error:
        raise StreamingError(rule, got="none installed", remedy=remedy) from error
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or not OLDEST <= (int(numbers[1]), int(numbers[2])) <= NEWEST:
        raise StreamingError(rule, got=found, remedy=remedy)


def _text(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
