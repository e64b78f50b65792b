"""Every attack gets the score it deserves and the right state, leaks nothing, writes nothing, and harms nobody."""

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from attacks import ATTACKS, SECRET, WRONG, Attack, leaked, plant, wrote
from nbconvert import HTMLExporter
from nbformat.v4 import new_markdown_cell, new_raw_cell
from tiny import LIMITS, answer


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory, course: Path) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    plant(course, folder)
    os.environ["AUTOGRADER_KEY"] = SECRET
    return folder


@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.01)
        yield listener


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(attack: Attack, grade, course: Path, outside: Path, server: socket.socket):
    data = attack.notebook().replace(b"COURSE", str(course).encode()).replace(b"OUTSIDE", str(outside).encode())
    data = data.replace(b"PORT", str(server.getsockname()[1]).encode())

    verdict = grade(data)

    assert (verdict.score, verdict.state) == (attack.score, attack.state), verdict.as_json()
    assert not leaked(verdict.notebook) and len(verdict.notebook) < 48 << 20
    told = json.dumps(verdict.as_json())
    assert "SECRET" not in told and "secret message" not in told + verdict.notebook
    assert not wrote(course, outside)
    with pytest.raises(TimeoutError):
        server.accept()

    honest = grade(answer())
    assert (honest.score, honest.state) == (6, "graded"), honest.as_json()
    assert not wrote(course, outside), "something of it is still running"


def test_a_notebook_that_uses_up_all_of_its_time_gets_a_verdict(grade):
    deaf = "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass"
    verdict = grade(answer(deaf), limits=replace(LIMITS, cell_seconds=2, total_seconds=2))
    assert (verdict.score, verdict.state) == (0, "timed out"), verdict.as_json()


def test_no_page_that_shows_a_graded_notebook_runs_its_scripts(grade):
    """Formgrader shows Markdown as it is, on the site where grades can be given."""
    script = "<script>give(me, points)</script>"
    notebook = answer(f"from IPython.display import Markdown, display\ndisplay(Markdown('{script}'))\n{WRONG}")
    notebook.cells += [new_markdown_cell(f"A < B, *{script}* `{script}`"), new_raw_cell(script)]

    page, _ = HTMLExporter().from_notebook_node(nbformat.reads(grade(notebook).notebook, as_version=4))

    assert script not in page and page.count("give(me, points)") == 5, "each is there, as text"
    assert "A &lt; B, <em>" in page


def test_there_are_at_least_forty_kinds():
    assert len({attack.tries for attack in ATTACKS}) >= 40
