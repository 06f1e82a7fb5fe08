"""Asking an engine's own parser, which lives in an environment of its own ('make engine-parsers')."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
ENVIRONMENTS = Path(os.environ.get("ENGINE_PARSERS") or ROOT / ".venv-parsers")
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine made of one case.

    Attributes:
        accepted: Whether its parser took it.
        parsed: What came out of it, as JSON values.
        error: What it said instead.
    """

    accepted: bool
    parsed: Any
    error: str


def ask(engine: str, *cases: dict[str, Any]) -> list[Answer]:
    """The answers of an engine's parser, one for each case, from one process."""
    with tempfile.TemporaryDirectory() as folder:
        cases_path, answers_path = Path(folder) / "cases.json", Path(folder) / "answers.json"
        cases_path.write_text(json.dumps(cases), encoding="utf-8")
        command = [ENVIRONMENTS / engine / "bin/python", FOLDER / f"runners/ask_{engine}.py", cases_path, answers_path]
        done = subprocess.run(
            command,
            cwd=folder,
            env=_environment(folder),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert answers_path.exists(), done.stdout + done.stderr
        return [Answer(**answer) for answer in json.loads(answers_path.read_text(encoding="utf-8"))]


def accepted(engine: str, *cases: dict[str, Any]) -> list[Any]:
    """What came out of cases that the engine must accept."""
    answers = ask(engine, *cases)
    assert not [answer.error for answer in answers if not answer.accepted]
    return [answer.parsed for answer in answers]


def _environment(home: str) -> dict[str, str]:
    """Nothing of ours on the path, no network, no accelerator, one thread."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | {
        "HOME": home,
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }
