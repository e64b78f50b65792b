"""To and from a learning management system: collect its zip of submissions, give it back a file of grades.

The roster is the file that the LMS itself offers: Canvas's exported gradebook, or Moodle's grading worksheet of the
assignment. People are matched by the number the LMS gave them, never by name. Whatever finds no match is said.
"""

import csv
import io
import re
import unicodedata
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

import dateutil.parser
from nbgrader.api import Assignment, Gradebook, Student, SubmittedAssignment
from sqlalchemy import select

from autograder import Problem
from autograder.assignment import MAX_NOTEBOOK

CANVAS_FILE = re.compile(r"[^_]*_(?P<late>LATE_)?(?P<number>\d+)_(?P<file>\d+)_(?P<name>.+)")
MOODLE_FILE = re.compile(r".*_(?P<number>\d+)_assignsubmission_file_/?(?P<name>.+)")
MOODLE_TIME = "Last modified (submission)"
CANVAS_PEOPLE = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


class NotARoster(Problem):
    """The sentence says what is wrong with the file."""


# -- people --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Person:
    """One line of the roster."""

    student: str  # the name of their folder, and their id in the gradebook
    name: str
    email: str
    number: str  # the LMS's own, which also stands in the names of its files
    row: dict[str, str]


@dataclass(frozen=True)
class Roster:
    """Who is in the class, as the LMS says, and its file as it was."""

    lms: str
    header: list[str]
    people: list[Person]
    dialect: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Roster":
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise NotARoster(f"{path} is not text in UTF-8") from None
        first = text.partition("\n")[0]
        dialect = {"delimiter": ";" if first.count(";") > first.count(",") else ","}
        table = csv.DictReader(io.StringIO(text), **dialect)
        header = list(table.fieldnames or [])
        rows = [{key: row.get(key) or "" for key in header} for row in table]
        if {"Student", "ID"} <= set(header):
            lms, found = "canvas", [_canvas(row) for row in rows if row["ID"].strip().isdigit()]
        elif {"Identifier", "Grade"} <= set(header):
            lms, found = "moodle", [_moodle(row) for row in rows]
        else:
            raise NotARoster(f"{path} is neither a Canvas gradebook nor a Moodle grading worksheet: it has {first!r}")
        taken = Counter(person.student for person in found)  # two people never share a folder
        people = [
            p if taken[p.student] == 1 else Person(f"{p.student}-{p.number}", p.name, p.email, p.number, p.row)
            for p in found
        ]
        return cls(lms, header, people, dialect)

    def enter(self, api: Gradebook) -> None:
        """Make them known to the gradebook, so that nobody is missing from any list."""
        for person in self.people:
            last, _, first = person.name.partition(", ")
            details = {"first_name": first or None, "last_name": last, "email": person.email or None}
            if self.lms == "canvas":  # Moodle counts its participants anew for each assignment
                details["lms_user_id"] = person.number
            api.update_or_create_student(person.student, **details)


def _canvas(row: dict[str, str]) -> Person:
    number, login = row["ID"].strip(), row.get("SIS Login ID", "").strip()
    return Person(folder_name(login) or number, row["Student"].strip(), login if "@" in login else "", number, row)


def _moodle(row: dict[str, str]) -> Person:
    number = row["Identifier"].removeprefix("Participant").strip()
    name, email = row.get("Full name", "").strip(), row.get("Email address", "").strip()
    return Person(folder_name(email) or folder_name(f"{name}-{number}"), name, email, number, row)


def folder_name(text: str) -> str:
    """The text as one safe path component, letters of any language kept."""
    return re.sub(r"[^\w.@+-]+", "-", unicodedata.normalize("NFC", text)).strip("-.")


# -- collect -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Upload:
    """A file in the zip that belongs to somebody."""

    info: zipfile.ZipInfo
    name: str
    order: tuple  # the last one counts
    late: bool


@dataclass
class Collected:
    """What came of a zip: the students whose notebook was taken, and what an instructor should know."""

    taken: list[str] = field(default_factory=list)
    nothing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


def collect(archive: Path, assignment: str, roster: Roster, submitted: Path, zone: str = "UTC") -> Collected:
    """Put the notebook of each person where the grader looks for it. Nothing else of the zip is unpacked."""
    result = Collected()
    by_number = {person.number: person for person in roster.people}
    uploads: dict[str, list[Upload]] = defaultdict(list)
    if not zipfile.is_zipfile(archive):
        archive.stat()  # raises when there is none
        raise Problem(f"{archive} is not a zip file")
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            if info.is_dir():
                continue
            path = info.filename  # in whatever encoding: only its number matters
            match = CANVAS_FILE.fullmatch(PurePosixPath(path).name) if roster.lms == "canvas" else None
            match = match or (MOODLE_FILE.fullmatch(path) if roster.lms == "moodle" else None)
            if not match or match["number"] not in by_number:
                result.unmatched.append(f"{path}: belongs to nobody in the roster")
            elif not match["name"].endswith(".ipynb"):
                result.notes.append(f"{path}: not a notebook, left in the zip")
            else:
                parts = match.groupdict()
                name = PurePosixPath(parts["name"]).name
                newest = int(parts["file"]) if "file" in parts else (name == f"{assignment}.ipynb", info.date_time)
                uploads[match["number"]].append(Upload(info, path, (newest, path), bool(parts.get("late"))))
        for person in roster.people:
            found = sorted(uploads[person.number], key=lambda upload: upload.order)
            if not found:
                kept = ": an earlier notebook is kept" if (submitted / person.student / assignment).exists() else ""
                result.nothing.append(f"{person.student} ({person.name}){kept}")
                continue
            *older, chosen = found
            if older:
                names = ", ".join(upload.name for upload in older)
                result.notes.append(f"{person.student}: several notebooks; took {chosen.name}, left {names}")
            try:
                with zipped.open(chosen.info) as file:
                    data = file.read(MAX_NOTEBOOK + 1)
            except (OSError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
                result.unmatched.append(f"{chosen.name}: of {person.student}, but cannot be unpacked: {problem}")
                continue
            folder = submitted / person.student / assignment
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{assignment}.ipynb").write_bytes(data)
            _write_time(folder / "timestamp.txt", person, chosen, zone, result)
            result.taken.append(person.student)
    return result


def _write_time(path: Path, person: Person, upload: Upload, zone: str, result: Collected) -> None:
    """When it was handed in, as far as the LMS tells. A file without a time counts as in time.

    Canvas says only that a file is late; the date in its zip is that of the download, the worst that can be assumed.
    """
    when, said = None, person.row.get(MOODLE_TIME, "").strip()
    if said not in ("", "-"):
        try:
            when = dateutil.parser.parse(said)
        except (ValueError, OverflowError):
            when = datetime(*upload.info.date_time)
            result.notes.append(f"{person.student}: cannot read the time {said!r}; took the file's, {when}")
    elif upload.late:
        when = datetime(*upload.info.date_time)
        result.notes.append(f"{person.student}: late, says Canvas, but not by how much; took the file's date, {when}")
    if when is None:
        path.unlink(missing_ok=True)
        return
    when = when if when.tzinfo else when.replace(tzinfo=ZoneInfo(zone))
    path.write_text(f"{when.astimezone(ZoneInfo('UTC')):%Y-%m-%d %H:%M:%S} UTC\n")


# -- grades --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grade:
    """One student's result in one assignment, as the gradebook has it: hand-given points and penalties included."""

    assignment: str
    student: str
    last_name: str
    first_name: str
    email: str
    handed_in: bool
    seconds_late: float
    raw_score: float
    late_penalty: float
    max_score: float

    @property
    def score(self) -> float:
        return max(0.0, self.raw_score - self.late_penalty)

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.last_name, self.first_name) if part)


def grades(api: Gradebook, assignments: Sequence[str] = ()) -> list[Grade]:
    """Every student times every assignment, whether handed in or not."""
    result = []
    students = api.db.execute(
        select(Student.id, Student.last_name, Student.first_name, Student.email).order_by(Student.id)
    ).all()
    for assignment in api.db.query(Assignment).order_by(Assignment.name):
        if assignments and assignment.name not in assignments:
            continue
        s = SubmittedAssignment
        query = select(s.student_id, s.timestamp, s.extension, s.score, s.late_submission_penalty)
        handed_in = {row[0]: row[1:] for row in api.db.execute(query.where(s.assignment_id == assignment.id))}
        for student, *who in students:
            timestamp, extension, score, penalty = handed_in.get(student, (None, None, 0.0, 0.0))
            late, due = 0.0, assignment.duedate
            if timestamp and due:
                late = max(0.0, (timestamp - due - extension if extension else timestamp - due).total_seconds())
            details = [text or "" for text in who]
            points = (late, score, penalty or 0.0, assignment.max_score)
            result.append(Grade(assignment.name, student, *details, student in handed_in, *points))
    return result


# -- export --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exported:
    text: str
    notes: list[str]


CSV_COLUMNS = ("assignment", "student", "last_name", "first_name", "email", "handed_in")
CSV_POINTS = ("raw_score", "late_penalty", "score", "max_score")


def as_csv(all_grades: Iterable[Grade]) -> Exported:
    """Everything in one table; its numbers are those of `nbgrader export`."""
    rows = [
        [guarded(str(getattr(g, c))) for c in CSV_COLUMNS] + [repr(float(getattr(g, c))) for c in CSV_POINTS]
        for g in all_grades
    ]
    return Exported(_table([*CSV_COLUMNS, *CSV_POINTS], rows), [])


def as_canvas(all_grades: Sequence[Grade], roster: Roster, missing: str = "") -> Exported:
    """A file for Canvas's gradebook import: a column for each assignment, under Canvas's own name where it has one."""
    by_assignment = _by_assignment(all_grades)
    people = [column for column in CANVAS_PEOPLE if column in roster.header]
    columns, limits = [], []
    for name, found in by_assignment.items():
        known = [c for c in roster.header if re.fullmatch(rf"{re.escape(name)}( \(\d+\))?", c.strip())]
        columns.append(known[0] if known else name)
        limits.append(points(next(iter(found.values())).max_score))
    rows = [["Points Possible" if column == "Student" else "" for column in people] + limits]
    for person in roster.people:
        scores = [_points_of(person, found, missing) for found in by_assignment.values()]
        rows.append([person.row[column] for column in people] + scores)
    return Exported(_table([*people, *columns], rows, **roster.dialect), _unmatched(by_assignment, roster))


def as_moodle(all_grades: Sequence[Grade], roster: Roster, missing: str = "") -> Exported:
    """The grading worksheet of one assignment as Moodle gave it, with the grades filled in."""
    by_assignment = _by_assignment(all_grades)
    if len(by_assignment) != 1:
        raise NotARoster(f"a Moodle worksheet belongs to one assignment: name one of {', '.join(by_assignment)}")
    ((name, found),) = by_assignment.items()
    notes, rows = _unmatched(by_assignment, roster), []
    for person in roster.people:
        limit = person.row.get("Maximum Grade", "").replace(",", ".")
        here = next(iter(found.values())).max_score
        scale = float(limit) / here if limit and float(limit) != here else 1.0
        if scale != 1.0 and not rows:
            notes.append(f"Moodle gives {limit} points for {name}, the gradebook {points(here)}: grades were scaled")
        rows.append(
            [_points_of(person, found, missing, scale) if c == "Grade" else person.row[c] for c in roster.header]
        )
    return Exported(_table(roster.header, rows, **roster.dialect), notes)


def _by_assignment(all_grades: Sequence[Grade]) -> dict[str, dict[str, Grade]]:
    found: dict[str, dict[str, Grade]] = {}
    for grade in all_grades:
        found.setdefault(grade.assignment, {})[grade.student] = grade
    return found


def _points_of(person: Person, found: dict[str, Grade], missing: str, scale: float = 1.0) -> str:
    grade = found.get(person.student)
    return points(grade.score * scale) if grade and grade.handed_in else missing


def _unmatched(by_assignment: dict[str, dict[str, Grade]], roster: Roster) -> list[str]:
    known, notes = {person.student for person in roster.people}, []
    for name, found in by_assignment.items():
        handed_in = {student for student, grade in found.items() if grade.handed_in}
        notes += [f"{s}: has a grade for {name}, but is not in the roster" for s in sorted(handed_in - known)]
        notes += [f"{p.student} ({p.name}): nothing handed in for {name}" for p in roster.people
                  if p.student not in handed_in]  # fmt: skip
    return notes


def points(value: float) -> str:
    """As short as two decimals allow."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def guarded(text: str) -> str:
    """A spreadsheet takes a cell that begins like this for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerows([header, *rows])
    return out.getvalue()
