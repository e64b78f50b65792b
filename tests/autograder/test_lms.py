"""An evening with an LMS: its zip in, its files out, and nobody lost on the way."""

import csv
import io
import shutil
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins.export import CsvExportPlugin
from nbgrader.preprocessors import AssignLatePenalties
from tiny import NAME, answer, to_bytes, write_course
from traitlets.config import PyFileConfigLoader

from autograder.__main__ import main
from autograder.lateness import LatePolicy
from autograder.lms import Grade, NotARoster, Roster, as_csv, as_moodle, collect, folder_name, points

RIGHT, WRONG = to_bytes(answer()), to_bytes(answer("def double(x): return x * x"))
CONFIG = f"""
c = get_config()
c.LatePolicy.due = {{"{NAME}": "2026-11-20 12:00 UTC"}}
c.LatePolicy.per_day = 0.1
c.LatePolicy.grace_days = 1
"""
CANVAS = f"""Student,ID,SIS User ID,SIS Login ID,Section,{NAME} (77),Final Score
Points Possible,,,,,6,(read only)
"Müller, Zoë",101,u1,zoe@uni.edu,A,,
"O'Neil ""Nan"", Ann, Jr.",102,u2,ann@uni.edu,A,,
"王, 小明",103,,,B,,
"Nothing, Nora",104,u4,nora@uni.edu,B,,
"""
MOODLE = """Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission),Feedback comments
Participant 11,Zoë Müller,zoe@uni.edu,Submitted,,100.00,"Friday, 20 November 2026, 1:15 PM",
Participant 12,"Ann ""Nan"" O'Neil, Jr.",ann@uni.edu,Submitted,,100.00,"Friday, 20 November 2026, 9:00 AM",
Participant 13,小明 王,wang@uni.edu,Submitted,,100.00,heute,
Participant 14,Nora Nothing,nora@uni.edu,No submission,,100.00,-,
"""


def write_zip(path: Path, files: dict[str, bytes], date=(2026, 11, 22, 11, 0, 0)) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in files.items():
            zipped.writestr(zipfile.ZipInfo(name, date), data)
    return path


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


class Evening:
    """A course whose only submissions are in a Canvas zip: collected, graded, given feedback, exported."""

    def __init__(self, root: Path):
        self.root = write_course(root)
        (root / "nbgrader_config.py").write_text(CONFIG)
        (root / "canvas.csv").write_text(CANVAS, encoding="utf-8-sig")
        (root / "moodle.csv").write_text(MOODLE)
        zipped = write_zip(
            root / "submissions.zip",
            {
                f"müllerzoë_101_9005_{NAME}-1.ipynb": RIGHT,  # the second attempt comes first in the zip
                f"müllerzoë_101_9001_{NAME}.ipynb": WRONG,
                f"oneilann_LATE_102_9002_{NAME}.ipynb": RIGHT,
                "王小明_103_9003_my homework.ipynb": WRONG,
                "王小明_103_9006_photo.png": b"...",
                f"stranger_999_9004_{NAME}.ipynb": RIGHT,
                "../../escape.ipynb": RIGHT,
            },
        )
        self.collected = self.run("collect", str(zipped), NAME, "--roster", str(root / "canvas.csv"))
        self.graded = self.run("grade", "--workers", "1")
        self.run("feedback")

    def run(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(["--course", str(self.root), *words])
        return status, out.getvalue(), err.getvalue()

    def export(self, *words: str) -> tuple[list[list[str]], str]:
        status, out, notes = self.run("export", *words)
        assert status == 0
        return read_csv(out), notes


@pytest.fixture(scope="module")
def evening(tmp_path_factory, course):
    return Evening(tmp_path_factory.mktemp("evening"))


def test_what_matches_nobody_and_who_is_missing_is_said(evening):
    status, text, _ = evening.collected
    assert status == 1, "a file without an owner wants a look"
    said = dict.fromkeys(("stranger_999", "escape.ipynb", "photo.png", "Nothing, Nora", "9001"))
    assert all(word in text for word in said)
    assert "3 of 4 people" in text and "late, says Canvas" in text
    assert not list(evening.root.rglob("escape*")), "nothing is unpacked where the zip wants it"


def test_the_last_attempt_counts(evening):
    folder = evening.root / "class" / "submitted" / "zoe@uni.edu" / NAME
    assert (folder / f"{NAME}.ipynb").read_bytes() == RIGHT
    assert {path.name for path in folder.parent.parent.iterdir()} == {"zoe@uni.edu", "ann@uni.edu", "103"}


def test_canvas_gets_back_its_own_rows_with_points(evening):
    rows, notes = evening.export("--to", "canvas", "--roster", str(evening.root / "canvas.csv"))
    assert rows == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"{NAME} (77)"],
        ["Points Possible", "", "", "", "", "6"],
        ["Müller, Zoë", "101", "u1", "zoe@uni.edu", "A", "6"],
        ['O\'Neil "Nan", Ann, Jr.', "102", "u2", "ann@uni.edu", "A", "5.4"],  # two days late, one of them free
        ["王, 小明", "103", "", "", "B", "3"],
        ["Nothing, Nora", "104", "u4", "nora@uni.edu", "B", ""],
    ]
    assert notes == f"nora@uni.edu (Nothing, Nora): nothing handed in for {NAME}\n"


def test_moodle_gets_back_its_worksheet_scaled_and_strangers_are_named(evening):
    rows, notes = evening.export(NAME, "--to", "moodle", "--roster", str(evening.root / "moodle.csv"), "--missing-zero")
    assert [row[4] for row in rows] == ["Grade", "100", "90", "0", "0"]
    assert [row[:4] + row[5:] for row in rows] == [row[:4] + row[5:] for row in read_csv(MOODLE)]
    assert "103: has a grade" in notes and "wang@uni.edu" in notes and "scaled" in notes


def test_our_csv_and_nbgraders_agree(evening, tmp_path):
    rows, _ = evening.export("--to", "csv")
    ours = {(r["assignment"], r["student"]): r for r in (dict(zip(rows[0], row, strict=True)) for row in rows[1:])}
    with Gradebook(f"sqlite:///{evening.root}/class/gradebook.db", "encoder") as book:
        CsvExportPlugin(to=str(tmp_path / "theirs.csv")).export(book)
    lines = [line.split(",") for line in (tmp_path / "theirs.csv").read_text().splitlines()[1:]]
    assert len(lines) == len(ours) == 4
    for line in lines:  # nbgrader does not quote names, so a comma in one moves what is between the ends
        row = ours[line[0], line[3]]
        assert [row[c] for c in ("raw_score", "late_penalty", "score", "max_score")] == line[-4:]
    assert ours[NAME, "ann@uni.edu"]["late_penalty"] == "0.6"


def test_a_new_policy_needs_no_new_grading(evening):
    text = (evening.root / "nbgrader_config.py").read_text()
    try:
        (evening.root / "nbgrader_config.py").write_text(text.replace("per_day = 0.1", "per_day = 0.0"))
        rows, _ = evening.export("--to", "csv")
        assert rows[2][1:2] + rows[2][-4:] == ["ann@uni.edu", "6.0", "0.0", "6.0", "6.0"]
    finally:
        (evening.root / "nbgrader_config.py").write_text(text)


def test_everybody_who_handed_in_gets_feedback(evening):
    found = {path.parts[-3] for path in (evening.root / "class" / "feedback").rglob("*.html")}
    assert found == {"zoe@uni.edu", "ann@uni.edu", "103"}
    page = (evening.root / "class" / "feedback" / "103" / NAME / f"{NAME}.html").read_text()
    assert "You square instead of doubling." in page and "secret message" not in page


def test_moodles_zip_in_folders_or_flat_and_with_names_that_lost_their_encoding(tmp_path):
    (tmp_path / "moodle.csv").write_text(MOODLE)
    zipped = write_zip(
        tmp_path / "m.zip",
        {
            f"Zo├½ M├╝ller_11_assignsubmission_file_{NAME}.ipynb": RIGHT,  # what a careless zip tool makes of a name
            "Ann O'Neil_12_assignsubmission_file_/draft.ipynb": WRONG,
            f"Ann O'Neil_12_assignsubmission_file_/{NAME}.ipynb": RIGHT,
            "小明 王_13_assignsubmission_file_/sub/x.ipynb": WRONG,
            "Nora Nothing_14_assignsubmission_onlinetext_/onlinetext.html": b"<p>sorry",
        },
    )
    result = collect(zipped, NAME, Roster.read(tmp_path / "moodle.csv"), tmp_path / "submitted", "Europe/Oslo")
    assert result.taken == ["zoe@uni.edu", "ann@uni.edu", "wang@uni.edu"]
    assert result.nothing == ["nora@uni.edu (Nora Nothing)"] and "onlinetext" in result.unmatched[0]
    submitted = tmp_path / "submitted"
    assert (submitted / "ann@uni.edu" / NAME / f"{NAME}.ipynb").read_bytes() == RIGHT
    stamp = (submitted / "zoe@uni.edu" / NAME / "timestamp.txt").read_text()
    assert stamp == "2026-11-20 12:15:00 UTC\n", "13:15 in Oslo"
    assert any("heute" in note for note in result.notes)
    again = collect(write_zip(tmp_path / "2.zip", {}), NAME, Roster.read(tmp_path / "moodle.csv"), submitted)
    assert 'ann@uni.edu (Ann "Nan" O\'Neil, Jr.): an earlier notebook is kept' in again.nothing


def test_a_broken_entry_is_named_and_costs_nobody_else(tmp_path):
    (tmp_path / "canvas.csv").write_text(CANVAS)
    files = {f"a_101_1_{NAME}.ipynb": RIGHT, f"b_102_2_{NAME}.ipynb": WRONG}
    zipped = write_zip(tmp_path / "c.zip", files)
    data = bytearray(zipped.read_bytes())
    data[data.index(b"nbformat")] ^= 1  # its checksum no longer fits
    zipped.write_bytes(data)
    result = collect(zipped, NAME, Roster.read(tmp_path / "canvas.csv"), tmp_path / "submitted")
    assert result.taken == ["ann@uni.edu"] and "zoe@uni.edu" in result.unmatched[0]


def test_two_people_never_share_a_folder(tmp_path):
    (tmp_path / "r.csv").write_text("Student;ID;SIS Login ID\nA;1;x y\nB;2;x/y\nC;3;../z\n")
    assert [p.student for p in Roster.read(tmp_path / "r.csv").people] == ["x-y-1", "x-y-2", "z"]
    assert folder_name("../..") == "" and folder_name("a/../b") == "a-..-b" and folder_name("Zoë") == "Zoë"


def test_a_file_that_is_no_roster_is_refused(tmp_path):
    (tmp_path / "r.csv").write_text("Name,Mark\n")
    with pytest.raises(NotARoster, match="Name,Mark"):
        Roster.read(tmp_path / "r.csv")
    found = [Grade(name, "a", "", "", "", True, 0, 1, 0, 2) for name in ("01", "02")]
    (tmp_path / "m.csv").write_text(MOODLE)
    with pytest.raises(NotARoster, match="one assignment"):
        as_moodle(found, Roster.read(tmp_path / "m.csv"))


def test_a_name_is_never_a_formula():
    text = as_csv([Grade("01", "a", '=HYPERLINK("x")', "", "", True, 0, 1, 0, 2)]).text
    assert read_csv(text)[1][2] == '\'=HYPERLINK("x")'


@pytest.mark.parametrize(
    ("per_day", "grace", "hours", "penalty"),
    [
        (0, 0, 100, 0),
        (0.1, 0, 1, 2),
        (0.1, 0, 24, 2),
        (0.1, 0, 25, 4),
        (0.1, 2, 48, 0),
        (0.1, 2, 49, 2),
        (0.5, 0, 99, 20),
    ],
)
def test_what_lateness_costs(per_day, grace, hours, penalty):
    policy = LatePolicy(per_day=per_day, grace_days=grace)
    assert policy.late_submission_penalty("ada", 20.0, hours * 3600) == penalty


def test_points_are_short():
    assert [points(x) for x in (0, 6.0, 10.0, 5.4, 17 / 3)] == ["0", "6", "10", "5.4", "5.67"]


def test_nbgrader_takes_its_penalties_from_the_same_policy(tmp_path):
    shutil.copy(Path(__file__).parents[2] / "nbgrader_config.py", tmp_path)
    assert LatePolicy.load(tmp_path).late_submission_penalty("ada", 20.0, 1e6) == 0, "as handed out, lateness is free"
    with (tmp_path / "nbgrader_config.py").open("a") as file:
        file.write("c.LatePolicy.per_day = 0.25\n")
    step = AssignLatePenalties(config=PyFileConfigLoader("nbgrader_config.py", str(tmp_path)).load_config())
    step.init_plugin()
    for policy in (step.plugin_inst, LatePolicy.load(tmp_path)):
        assert policy.late_submission_penalty("ada", 20.0, 60) == 5
