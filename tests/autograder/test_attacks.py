"""Every attack gets the score it deserves and the right state, leaks nothing, writes nothing, and harms nobody."""

import json
import os
import socket
from pathlib import Path

import pytest
from attacks import ATTACKS, SECRET, Attack, leaked, plant, wrote
from tiny import answer


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
    assert not leaked(verdict.notebook)
    told = json.dumps(verdict.as_json())
    assert "SECRET" not in told and "secret message" not in told + verdict.notebook
    assert not wrote(course, outside)
    with pytest.raises(TimeoutError):
        server.accept()

    honest = grade(answer())
    assert (honest.score, honest.state) == (6, "graded"), honest.as_json()
    assert not wrote(course, outside), "something of it is still running"


def test_there_are_at_least_forty_kinds():
    assert len({attack.tries for attack in ATTACKS}) >= 40
