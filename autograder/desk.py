"""The instructor's commands: report, export, collect, similar, worker."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from autograder import Problem


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def add_commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    def results(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--output", type=Path, metavar="DIR", help="where the results are (default: class)")
        sub.add_argument("--db", metavar="URL", help="the gradebook (default: sqlite, gradebook.db in that folder)")

    sub = command("report", report, "write a page about a class: class/reports/ASSIGNMENT.html")
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="which assignments (default: all graded)")
    results(sub)

    sub = command(
        "export",
        export,
        "write the grades for a spreadsheet or an LMS",
        description="Write the grades, late penalties taken off. What does not match the roster is listed.",
    )
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="which assignments (default: all graded)")
    sub.add_argument("--to", choices=("csv", "canvas", "moodle"), default="csv")
    sub.add_argument("--roster", type=Path, metavar="FILE", help="Canvas's gradebook or Moodle's grading worksheet")
    sub.add_argument("--missing-zero", action="store_true", help="0 for who handed in nothing, in place of no grade")
    sub.add_argument("--file", type=Path, metavar="FILE", help="where to write (default: standard output)")
    results(sub)

    sub = command(
        "collect",
        collect,
        "take the submissions out of an LMS's zip",
        description="Put each notebook of the zip where `grade` looks for it. Files and people that match nobody are "
        "listed, and the exit status is then 1.",
    )
    sub.add_argument("zip", type=Path, metavar="ZIP")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("--roster", type=Path, required=True, metavar="FILE", help="as for export")
    sub.add_argument("--timezone", default="UTC", metavar="ZONE", help="of the LMS's times, like Europe/Oslo (UTC)")
    results(sub)

    sub = command("similar", similar, "show answers that are built alike side by side: a question, not a verdict")
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="which assignments (default: all handed in)")
    sub.add_argument("--submissions", type=Path, metavar="DIR", help="(default: class/submitted)")
    sub.add_argument("--output", type=Path, metavar="DIR", help="where the results are (default: class)")

    sub = command("worker", worker, "grade here for a Dask scheduler (see autograder/cluster.py)")
    sub.add_argument("scheduler", metavar="ADDRESS", help="like tcp://head:8786")
    sub.add_argument("--workers", type=positive, metavar="N", help="submissions graded at a time (default: the cores)")


def output_of(args: argparse.Namespace) -> Path:
    return args.output or args.course / "class"


@contextmanager
def gradebook(args: argparse.Namespace, new: bool = False):
    """The gradebook with the late policy applied."""
    from autograder.gradebook import Book
    from autograder.lateness import LatePolicy

    path = output_of(args).absolute() / "gradebook.db"
    if not (args.db or new or path.exists()):
        raise FileNotFoundError(f"there is no gradebook {path}: grade first")
    with Book(args.db or f"sqlite:///{path}") as book:
        LatePolicy.load(args.course).apply(book.api)
        yield book.api


def report(args: argparse.Namespace) -> int:
    from autograder.report import write_report

    output = output_of(args)
    names = args.assignments or sorted({path.stem for path in output.glob("receipts/*/*.json")})
    with gradebook(args) as api:
        for name in names:
            print(write_report(args.course, output, api, name))
    return 0


def export(args: argparse.Namespace) -> int:
    from autograder.grade import write_atomically
    from autograder.lms import Roster, as_canvas, as_csv, as_moodle, grades

    missing = "0" if args.missing_zero else ""
    if args.to != "csv" and not args.roster:
        raise Problem(f"--to {args.to} needs --roster: the file to fill in")
    with gradebook(args) as api:
        found = grades(api, args.assignments)
    if not found:
        raise Problem("the gradebook has no grades for that")
    if args.to == "csv":
        exported = as_csv(found)
    else:
        fill = as_canvas if args.to == "canvas" else as_moodle
        exported = fill(found, Roster.read(args.roster), missing)
    if args.file:
        write_atomically(args.file, exported.text)
    else:
        print(exported.text, end="")
    print(*exported.notes, sep="\n", end="\n" if exported.notes else "", file=sys.stderr)
    return 0


def collect(args: argparse.Namespace) -> int:
    from zoneinfo import ZoneInfo

    from autograder.assignment import Assignment
    from autograder.lms import Roster
    from autograder.lms import collect as unpack

    Assignment.load(args.course, args.assignment)  # a name nobody knows would never be graded
    try:
        ZoneInfo(args.timezone)
    except (KeyError, ValueError, OSError):
        raise Problem(f"there is no time zone {args.timezone}") from None
    roster = Roster.read(args.roster)
    with gradebook(args, new=True) as api:
        roster.enter(api)
    found = unpack(args.zip, args.assignment, roster, output_of(args) / "submitted", args.timezone)
    print(f"{len(found.taken)} of {len(roster.people)} people: notebook collected for {args.assignment}")
    for title, lines in (
        ("Handed in nothing", found.nothing),
        ("To know", found.notes),
        ("Not matched", found.unmatched),
    ):
        if lines:
            print(f"{title}:", *lines, sep="\n  ")
    return 1 if found.unmatched else 0


def similar(args: argparse.Namespace) -> int:
    from autograder.similar import write_page

    output = output_of(args)
    submitted = args.submissions or output / "submitted"
    if not submitted.is_dir():
        raise FileNotFoundError(f"there is no folder {submitted} with submissions")
    names = args.assignments or sorted({path.parent.name for path in submitted.glob("*/*/*.ipynb")})
    if not names:
        raise Problem(f"there are no notebooks in {submitted}")
    for name in names:
        print(write_page(args.course, submitted, output, name))
    return 0


def worker(args: argparse.Namespace) -> int:
    from autograder.cluster import become_worker

    become_worker(args.scheduler, args.workers or os.cpu_count() or 1)
    return 0
