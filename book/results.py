"""Results of long experiments: experiments/NN_stem.py saves them, chapters and the claims appendix load them."""

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

RESULTS = Path(__file__).resolve().parent / "results"


def save(stem: str, seeds: list[int], **measured: Any) -> None:
    """Write results/NN_stem.json with what was measured, the seeds, the versions and the command that did it."""
    record = {
        "command": f"python book/experiments/{stem}.py",
        "seeds": seeds,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "measured": measured,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{stem}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(stem: str) -> dict[str, Any]:
    """What results/NN_stem.json holds under "measured"."""
    return json.loads((RESULTS / f"{stem}.json").read_text(encoding="utf-8"))["measured"]
