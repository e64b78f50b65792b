"""A small class that has handed in assignment 01: good, mistaken, broken and hostile.

python -m autograder.demo class/submitted
"""

import sys
from pathlib import Path

import nbformat

from autograder.build import exercise_notebook, solution_notebook
from autograder.misconceptions import answered, read_versions

STEM = "01_attention"
MISTAKEN = {  # student: which of the misconceptions they hold
    "bea": "attention_weights__divided_by_k",
    "chen": "attention_weights__mask_after_softmax",
    "dario": "attention_weights__nan_when_nothing_is_left",
    "emeka": "scaled_dot_product_attention__averages_the_keys",
    "fatima": "check_masking__only_row_sums",
}
HOSTILE = {  # student: what they put in place of attention_weights
    "mallory": "import torch\ntorch.allclose = lambda *a, **k: True\n"
    "def attention_weights(q, k, mask=None):\n    return torch.zeros(q.shape[:-1] + (k.size(-2),))",
    "oscar": "def attention_weights(q, k, mask=None):\n    while True: pass",
    "trudy": "import os\ndef attention_weights(q, k, mask=None):\n    os._exit(0)",
    "victor": "hoard = [bytearray(1 << 30) for _ in range(64)]",
}


def demo_class(root: Path) -> dict[str, str]:
    """Student → the text they hand in."""
    assignment = root / "assignments" / f"{STEM}.md"
    solution = solution_notebook(assignment)
    versions = {f"{v.piece}__{'right__' if v.right else ''}{v.name}": v for v in read_versions(assignment)}
    wrong = {s: versions[name] for s, name in MISTAKEN.items()}
    other_style = versions["attention_weights__right__einsum"]
    handed_in = {"ada": answered(solution), "grace": answered(solution, {other_style.piece: other_style.source})}
    handed_in |= {s: answered(solution, {v.piece: v.source}) for s, v in wrong.items()}
    handed_in |= {s: answered(solution, {"attention_weights": code}) for s, code in HOSTILE.items()}
    handed_in["noah"] = exercise_notebook(solution)  # opened it, went to bed
    texts = {student: nbformat.writes(nb) + "\n" for student, nb in handed_in.items()}
    texts["paul"] = texts["ada"][: len(texts["ada"]) // 2]  # the upload broke off
    return texts


def main(target: Path) -> None:
    for student, text in demo_class(Path(__file__).parents[1]).items():
        path = target / student / STEM / f"{STEM}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged submission is not graded again
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
