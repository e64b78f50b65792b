"""Run chapters and store what they show: `python book/store_outputs.py [book/01_attention.ipynb …]`, all by default.

A stored notebook differs from run to run only where its results do: no times, no machine's versions, no random ids.
Anything on stderr stops the run: a warning would be printed in the book.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

BOOK = Path(__file__).resolve().parent
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def store(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for i, cell in enumerate(notebook.cells):
        cell.setdefault("id", f"cell-{i}")
    notebook.metadata = KERNEL
    NotebookClient(notebook, timeout=900, coalesce_streams=True, resources={"metadata": {"path": str(BOOK)}}).execute()
    notebook.metadata = KERNEL  # running wrote this machine's versions
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise SystemExit(f"{path.name}: a cell wrote to stderr, which readers would see:\n{output['text']}")
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for chapter in [Path(name) for name in sys.argv[1:]] or sorted(BOOK.glob("*.ipynb")):
        print(f"running {chapter.name}")
        store(chapter.resolve())
