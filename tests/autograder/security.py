"""Writes autograder/SECURITY.md: every attack of the suite against stock nbgrader and against this autograder.

    python tests/autograder/security.py

Stock nbgrader runs in a container that shares nothing but a scratch folder (some attacks kill whatever they can reach),
on the same notebooks, with a time limit for cells. Four attacks that would harm this machine are not given to it.
"""

import contextlib
import hmac
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

from attacks import ATTACKS, SECRET, Attack, leaked, plant, wrote  # noqa: E402
from tiny import LIMITS, NAME, write_course  # noqa: E402

ENDED = "ended the grader"
NOT_TRIED = {name: "not tried: it has no limit" for name in ("fork bomb", "memory bomb", "fills the disk")}
NOT_TRIED["edits packages"] = "not tried: nothing would stop it"
CONFIG = """c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.Execute.timeout = 20
c.Execute.startup_timeout = 120
"""
HEAD = """# What submissions have tried, and what they got

Written by `python tests/autograder/security.py`, never by hand. `sandbox.py` says what is covered and what is not.

Each attack is one line in `tests/autograder/attacks.py`. *Deserved* is what the answers in the notebook are worth (of 6
points); a code attack comes with one wrong and one right piece. *Stock nbgrader* is version {version} as it comes, in a
container: a score in **bold** is one that was not deserved, and *leaked* or *wrote* says that something secret was read
or a file outside the submission was written.

"""


def notebook(attack: Attack, course: Path, outside: Path, port: int) -> bytes:
    data = attack.notebook()
    for word, value in (("COURSE", course), ("OUTSIDE", outside), ("PORT", port)):
        data = data.replace(word.encode(), str(value).encode())
    return data


def ours(attack: Attack, course: Path, outside: Path, port: int) -> str:
    from autograder.assignment import Assignment
    from autograder.score import Task, grade_submission

    data = notebook(attack, course, outside, port)
    secret = hmac.digest(b"security", data, "sha256")
    verdict = grade_submission(Task("eve", Assignment.load(course, NAME), data, secret, limits=LIMITS))
    return f"{verdict.score:g}, {verdict.state}{harm(verdict.notebook, course, outside)}"


def harm(text: str, course: Path, outside: Path) -> str:
    """What was leaked into the graded notebook, or written outside; all is put back."""
    said = ", *leaked*" * bool(text and leaked(text)) + ", *wrote*" * wrote(course, outside)
    outside.mkdir(exist_ok=True)
    plant(course, outside)
    return said


def end_leftovers() -> None:
    """In the container: end whatever an attack has left running."""
    assert Path("/proc/1/comm").read_text() == "bwrap\n", "only inside the container"
    for process in psutil.process_iter():
        if process.pid not in (1, os.getpid()):
            with contextlib.suppress(psutil.Error):
                process.kill()


def stock_worker(course: Path, outside: Path) -> None:
    """Inside the container: grade one student after the other with nbgrader's own API, and write down what it says."""
    import logging

    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    logging.disable(logging.CRITICAL)
    config = PyFileConfigLoader("nbgrader_config.py", str(course)).load_config()
    config.CourseDirectory.root = str(course)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    if not (course / "gradebook.db").exists():
        assert api.generate_assignment(NAME, force=True)["success"]
    for folder in sorted((course / "submitted").iterdir()):
        result = course / "results" / f"{folder.name}.json"
        if not result.exists():
            end_leftovers()
            harm("", course, outside)
            result.write_text(json.dumps(ENDED))  # what stays, if it does
            success = api.autograde(NAME, folder.name, force=True)["success"]
            with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
                score = book.find_submission(NAME, folder.name).score if success else None
            graded = course / "autograded" / folder.name / NAME / f"{NAME}.ipynb"
            text = graded.read_text(errors="replace") if graded.exists() else ""
            said = "no grade, an error" if score is None else f"{score:g}"
            result.write_text(json.dumps(said + harm(text, course, outside)))
    (course / "done").touch()


def stock(attacks: list[Attack], scratch: Path, port: int) -> dict[str, str]:
    """Attack → what stock nbgrader made of it."""
    course, outside = write_course(scratch / "course"), scratch / "outside"
    (course / "nbgrader_config.py").write_text(CONFIG)
    (course / "results").mkdir()
    students = {f"s{i:03}": attack for i, attack in enumerate(attacks)}
    for student, attack in students.items():
        path = course / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(notebook(attack, course, outside, port))
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(scratch)}
    command = ["bwrap", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    command += ["--tmpfs", "/tmp", "--bind", str(scratch), str(scratch)]
    command += [sys.executable, str(HERE / "security.py"), "--stock-worker", str(course), str(outside)]
    said: dict[str, str] = {}
    while len(said) < len(students):  # an attack may end the grader: the next run goes on after it
        before = len(said)
        with subprocess.Popen(command, env=environment | {"SECRET_KEY": SECRET}, stdout=-3, stderr=-3) as container:
            while container.poll() is None and not (course / "done").exists():
                time.sleep(1)
            container.kill()  # processes that an attack has left behind would keep it open
        for path in sorted((course / "results").iterdir()):
            attack = students[path.stem]
            result = json.loads(path.read_text())
            points, comma, rest = result.partition(",")
            undeserved = points not in (f"{attack.score:g}", "no grade", ENDED) and attack.state != "unreadable"
            said[attack.name] = f"**{points}**{comma}{rest}" if undeserved else result
        assert len(said) > before, "stock nbgrader does not run here"
    return said


def main() -> None:
    from importlib.metadata import version

    from autograder.sandbox import start_zygote

    start_zygote()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary, socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_accept, args=(server,), daemon=True).start()
        port, scratch = server.getsockname()[1], Path(temporary)
        (scratch / "outside").mkdir()
        theirs = stock([a for a in ATTACKS if a.name not in NOT_TRIED], scratch, port)
        os.environ["AUTOGRADER_KEY"] = SECRET
        harm("", scratch / "course", scratch / "outside")
        rows = ["| attack | tries | deserved | stock nbgrader | autograder |", "|---|---|---|---|---|"]
        for attack in ATTACKS:
            mine = ours(attack, scratch / "course", scratch / "outside", port)
            said = theirs.get(attack.name) or NOT_TRIED[attack.name]
            rows.append(f"| {attack.name} | {attack.tries} | {attack.score:g} | {said} | {mine} |")
    text = HEAD.format(version=version("nbgrader")) + "\n".join(rows) + "\n"
    (ROOT / "autograder" / "SECURITY.md").write_text(text, encoding="utf-8")


def _accept(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


if __name__ == "__main__":
    stock_worker(*map(Path, sys.argv[2:])) if sys.argv[1:2] == ["--stock-worker"] else main()
