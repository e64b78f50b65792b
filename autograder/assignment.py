"""What the grader knows of one assignment, read from its solution notebook: pieces, tests, and what a test needs."""

import ast
import hashlib
import importlib.util
import json
import re
import symtable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

HIDDEN = re.compile(r"^[ \t]*### BEGIN HIDDEN TESTS.*?^[ \t]*### END HIDDEN TESTS[ \t]*\n?", re.DOTALL | re.MULTILINE)
MAX_NOTEBOOK = 32 << 20
IMPORTS = ast.Import | ast.ImportFrom


class Unreadable(Exception):
    """A submission that is not a notebook; the sentence is for the learner."""


def read_cells(data: bytes) -> list[dict]:
    """The cells of a notebook, each with cell_type, source (a string) and metadata, whatever else the file holds."""
    if len(data) > MAX_NOTEBOOK:
        raise Unreadable(f"The file has {len(data) >> 20} MB. Clear the outputs, save, and hand it in again.")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
        cells = notebook["cells"]
        return [_cell(cell) for cell in cells]
    except UnicodeDecodeError:
        raise Unreadable("The file is not text in UTF-8, so it is not a notebook.") from None
    except RecursionError:
        raise Unreadable("The file is nested too deeply to be a notebook.") from None
    except ValueError:
        raise Unreadable("The file is not valid JSON; was it cut off or edited by hand?") from None
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("The file is JSON but not a notebook of format 4. Save it again with Jupyter.") from None


def _cell(cell: dict) -> dict:
    source, metadata = cell.get("source", ""), cell.get("metadata", {})
    source = source if isinstance(source, str) else "".join(str(line) for line in source)
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    nbgrader = nbgrader if isinstance(nbgrader, dict) and isinstance(nbgrader.get("grade_id"), str) else {}
    kind = cell["cell_type"] if cell["cell_type"] in ("code", "markdown", "raw") else "raw"
    return {
        "cell_type": kind,
        "source": source.replace("\x00", ""),
        "metadata": {"nbgrader": nbgrader} if nbgrader else {},
    }


def grade_id(cell: dict) -> str | None:
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


@dataclass(frozen=True)
class Test:
    """A test cell. `setup` is the part of the given cells above it that it depends on."""

    name: str
    sentence: str
    points: float
    source: str
    hidden: bool
    shown: str  # the cell as the learner sees it
    setup: str
    pieces: tuple[str, ...]  # the learner's names that it uses
    metadata: dict[str, Any] = field(hash=False)

    @property
    def hash(self) -> str:
        return digest(self.setup, self.source, str(self.points))


@dataclass(frozen=True)
class Assignment:
    """Everything that grading one assignment takes, as plain data: it can be sent to another machine."""

    name: str
    notebook: bytes
    misconceptions: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # data handed out beside the notebook
    package: dict[str, bytes] = field(default_factory=dict)  # the encoder's modules of earlier chapters

    @classmethod
    def load(cls, root: Path, name: str) -> "Assignment":
        folder = root / "solutions" / name
        path = folder / f"{name}.ipynb"
        if not path.is_file():
            known = sorted(p.parent.name for p in (root / "solutions").glob("*/*.ipynb"))
            raise FileNotFoundError(f"there is no assignment {name}; there are {', '.join(known) or 'none'}")
        wrong = root / "assignments" / f"{name}_misconceptions.py"
        files = {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
        return cls(
            name,
            path.read_bytes(),
            wrong.read_text(encoding="utf-8") if wrong.exists() else "",
            {name: data for name, data in files.items() if not name.endswith(".ipynb")},
            earlier_package(root / "encoder", int(re.match(r"\d*", name)[0] or 0)),
        )

    @cached_property
    def cells(self) -> list[dict]:
        return read_cells(self.notebook)

    @cached_property
    def solutions(self) -> dict[str, str]:
        """Source of each solution cell by its name."""
        return {grade_id(c): c["source"] for c in self.cells if c["metadata"].get("nbgrader", {}).get("solution")}

    @cached_property
    def pieces(self) -> dict[str, str]:
        """The names a submission must define, each with the solution cell it belongs to."""
        statements = [(cell, s) for cell, source in self.solutions.items() for s in ast.parse(source).body]
        return {name: cell for cell, s in statements if not isinstance(s, IMPORTS) for name in bound_names(s)}

    @cached_property
    def values(self) -> set[str]:
        """The pieces that are values, not functions or classes: a test sees what they are when it starts."""
        definitions = ast.FunctionDef | ast.ClassDef
        trees = [statement for source in self.solutions.values() for statement in ast.parse(source).body]
        return set(self.pieces) - {s.name for s in trees if isinstance(s, definitions)}

    @cached_property
    def given(self) -> list[str]:
        """The code cells given to the learner as they are."""
        return [c["source"] for c in self.cells if c["cell_type"] == "code" and not _is_graded(c)]

    @cached_property
    def libraries(self) -> list[str]:
        """The modules that its cells import, and the compiler that an optimiser's first step would import."""
        source = "\n".join([*map(without_magics, self.given), *self.solutions.values()])
        names = {"torch._dynamo"} if "optim" in source else set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module or "")
        return sorted(name for name in names if name.split(".")[0] not in ("", "encoder"))

    @cached_property
    def tests(self) -> list[Test]:
        tests, above = [], []
        for cell in self.cells:
            meta = cell["metadata"].get("nbgrader", {})
            if meta.get("grade"):
                source = cell["source"]
                sentence = source.split("\n", 1)[0].removeprefix("#").strip() or meta["grade_id"]
                shown = HIDDEN.sub("", source).strip()
                points, hidden = float(meta["points"]), shown != source.strip()
                setup = needed(above, source, set(self.pieces))
                used = tuple(sorted(set(self.pieces) & names_read(ast.parse(f"{setup}\n{source}"))))
                tests.append(Test(meta["grade_id"], sentence, points, source, hidden, shown, setup, used, meta))
            elif cell["cell_type"] == "code" and not _is_graded(cell):
                above.append(cell["source"])
        return tests

    @property
    def max_score(self) -> float:
        return sum(test.points for test in self.tests)


def _is_graded(cell: dict) -> bool:
    meta = cell["metadata"].get("nbgrader", {})
    return bool(meta.get("grade") or meta.get("solution"))


def needed(cells: list[str], user: str, pieces: set[str]) -> str:
    """The statements of `cells` that `user` depends on: a plot or a long experiment is not run just to grade."""
    statements = [s for source in cells for s in ast.parse(without_magics(source)).body]
    late: set[str] = set()  # what kept functions read: it may be defined below them
    while True:
        wanted = set(late)
        for statement in reversed(ast.parse(user).body):
            wanted = wanted - set(bound_names(statement)) | names_read(statement)
        kept: list[ast.stmt] = []
        for statement in reversed(statements):
            wanted -= pieces
            if wanted & {*bound_names(statement), *_changed(statement)}:
                kept.append(statement)
                wanted = wanted - set(bound_names(statement)) | names_read(statement)
        found = late.union(*(names_read(s) for s in kept if isinstance(s, ast.FunctionDef | ast.ClassDef)))
        if found == late:
            return "\n".join(ast.unparse(s) for s in reversed(kept))
        late = found


def without_magics(source: str) -> str:
    return "\n".join("" if line.startswith(("%", "!")) else line for line in source.split("\n"))


def names_read(statement: ast.AST) -> set[str]:
    """The global names that a statement (or a whole cell), or a function it defines, reads."""
    names, scopes = set(), [symtable.symtable(ast.unparse(statement), "<cell>", "exec")]
    for scope in scopes:
        at_top = scope.get_type() == "module"
        names |= {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (at_top or s.is_global())}
        scopes += scope.get_children()
    return names


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that a top-level statement is sure to bind."""
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return [statement.name]
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            return [
                n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            ]
    return []


def _changed(statement: ast.stmt) -> list[str]:
    """The names that it may bind or change: loop variables, `a.b = …`, `a[i] = …`, `a += …`, `a.eval()`."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return []
    names = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            node = node.value.func
        elif not (hasattr(node, "ctx") and isinstance(node.ctx, ast.Store)):
            continue
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        names += [node.id] if isinstance(node, ast.Name) else []
    return names


def earlier_package(encoder: Path, number: int) -> dict[str, bytes]:
    """The modules of the encoder that belong to chapters before `number`, as files of a package."""
    if not (encoder / "__init__.py").exists():
        return {}
    spec = importlib.util.spec_from_file_location("_chapters", encoder / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = [name for name, chapter in module.CHAPTERS.items() if chapter < number]
    package = {f"encoder/{n}.py": path.read_bytes() for n in names if (path := encoder / f"{n}.py").exists()}
    return package | {"encoder/__init__.py": b'"""The pieces of the earlier chapters."""\n'}


def digest(*parts: str | bytes) -> str:
    sha = hashlib.sha256()
    for part in parts:
        part = part.encode(errors="surrogatepass") if isinstance(part, str) else part  # file names may be odd
        sha.update(len(part).to_bytes(8, "big") + part)
    return sha.hexdigest()
