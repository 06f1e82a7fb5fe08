"""What the runners share: cases come from one file, answers go into another; engines print on stdout as they like."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Case = dict[str, Any]


def answer_all(ask: Callable[[Case], Any]) -> None:
    """Ask the engine about every case of the first file, and write its answers into the second.

    Args:
        ask: Gives what the engine made of a case, as JSON values; raises or exits where the engine refuses it.
    """
    cases_path, answers_path = map(Path, sys.argv[1:])
    cases = json.loads(cases_path.read_text(encoding="utf-8"))
    answers_path.write_text(json.dumps([_answer(ask, case) for case in cases], default=str), encoding="utf-8")


def _answer(ask: Callable[[Case], Any], case: Case) -> dict[str, Any]:
    try:
        return {"accepted": True, "parsed": ask(case), "error": ""}
    except (Exception, SystemExit) as error:  # whatever the engine says no with is its answer
        return {"accepted": False, "parsed": None, "error": f"{type(error).__name__}: {error}"}
