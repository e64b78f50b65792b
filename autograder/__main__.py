"""The command line of the autograder: `autograder --help`."""

import argparse
import json
import os
import sys
import textwrap
from pathlib import Path

from autograder import Problem
from autograder.desk import add_commands, positive
from autograder.sandbox import Limits, SandboxUnavailable, start_zygote

ROOT = Path(__file__).resolve().parents[1]
EPILOG = """
An evening with a class:
  autograder collect submissions.zip 01_attention --roster gradebook.csv
                                         take the notebooks out of an LMS's zip
  autograder grade                       grade what has changed in class/submitted
  autograder report                      write a page about the class to class/reports
  autograder feedback                    write a page for each learner to class/feedback
  autograder export --to canvas --roster gradebook.csv --file grades.csv
                                         write a file that the LMS can import
  autograder verify class/receipts/ada/01_attention.json
                                         grade once more and compare
A learner alone:
  autograder check exercises/01_attention/01_attention.ipynb
"""


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except SandboxUnavailable as problem:
        print(f"autograder: {problem}.", file=sys.stderr)
        print(
            "Nothing was graded. Install bubblewrap (apt install bubblewrap), or give --unsafe-no-sandbox if you trust "
            "every line of the code.",
            file=sys.stderr,
        )
        return 2
    except (Problem, OSError) as problem:
        file = getattr(problem, "filename", None)
        print(f"autograder: {f'{file}: {problem.strerror}' if file else problem}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="autograder",
        description="Grade notebooks of the course. Learners' code runs in a sandbox; tests and scores stay outside.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--course", type=Path, default=ROOT, help=argparse.SUPPRESS)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name, run, help, **kwargs):
        sub = commands.add_parser(name, help=help, description=kwargs.pop("description", help))
        sub.set_defaults(run=run)
        return sub

    def unsafe(sub):
        text = "run learners' code without a sandbox: only for code you trust; the record says so"
        sub.add_argument("--unsafe-no-sandbox", action="store_true", help=text)

    command("build", build, "make solutions/ and exercises/ from assignments/ and encoder/")

    sub = command(
        "check",
        check,
        "grade one notebook here and now",
        description="Grade one notebook and say what is right, what is not and why. Exit status 0 only on full marks.",
    )
    sub.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    sub.add_argument("--assignment", help="which assignment it answers, if the file has another name")
    sub.add_argument("--json", action="store_true", help="print the verdict as JSON")
    unsafe(sub)

    sub = command(
        "grade",
        grade,
        "grade a class",
        description="Grade every submission that has changed since it was last graded. Writes the graded notebooks, "
        "the gradebook and a receipt for each grade. Exit status 0 when every submission reached a state, whatever "
        "the scores.",
    )
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="which assignments (default: all)")
    sub.add_argument(
        "--submissions",
        type=Path,
        metavar="DIR",
        help="holds STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb (default: class/submitted)",
    )
    sub.add_argument("--output", type=Path, metavar="DIR", help="where results go (default: the folder around DIR)")
    sub.add_argument("--workers", type=positive, metavar="N", help="submissions graded at a time (default: the cores)")
    sub.add_argument("--db", metavar="URL", help="the gradebook (default: sqlite, gradebook.db in the output folder)")
    sub.add_argument("--scheduler", metavar="ADDRESS", help="grade on the workers of a Dask scheduler, tcp://HOST:8786")
    sub.add_argument("--json", type=Path, metavar="FILE", help="also write all verdicts to FILE")
    for name, what in (("cell", "one cell"), ("test", "one test"), ("total", "one submission")):
        default = getattr(Limits, f"{name}_seconds")
        sub.add_argument(f"--{name}-seconds", type=float, default=default, help=f"limit for {what} ({default:g})")
    unsafe(sub)

    sub = command("verify", verify, "grade once more what a receipt stands for, and compare")
    sub.add_argument("receipt", type=Path, metavar="RECEIPT")

    sub = command("feedback", feedback, "write a page for each learner from the last grading")
    sub.add_argument("--output", type=Path, default=None, metavar="DIR", help="where the results are (default: class)")
    sub.add_argument("--book", default="", metavar="URL", help="where the book's chapters are (default: the built one)")

    add_commands(command)

    sub = command(
        "matrix",
        matrix,
        "prove the tests: every known mistake caught and named, every right answer accepted",
    )
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="which assignments (default: all)")
    sub.add_argument("--write", type=Path, metavar="FILE", help="also write the whole table as a page")
    sub.add_argument("--workers", type=positive, metavar="N", help="processes (default: the cores)")

    sub = command(
        "assemble",
        assemble,
        "make a package of your own finished pieces",
        description="Check your notebooks and gather every piece that passes all of its tests into a package with the "
        "reference's interface, with a certificate. What is missing is taken from the reference, and listed.",
    )
    sub.add_argument("exercises", type=Path, metavar="EXERCISES_DIR", help="holds ASSIGNMENT/ASSIGNMENT.ipynb")
    sub.add_argument("-o", "--output", type=Path, default=Path("my_encoder"), metavar="DIR", help="(my_encoder)")
    sub.add_argument("--workers", type=positive, metavar="N", help="notebooks checked at a time (default: the cores)")
    unsafe(sub)
    return top


def build(args: argparse.Namespace) -> int:
    from autograder.build import BuildError
    from autograder.build import build as build_all

    try:
        changed = build_all(args.course)
    except BuildError as problem:
        print(f"autograder: {problem}", file=sys.stderr)
        return 1
    for path in changed:
        print(path.relative_to(args.course))
    return 0


def check(args: argparse.Namespace) -> int:
    start_zygote()  # imports torch at the same time as this process
    import hmac

    from autograder.assignment import MAX_NOTEBOOK, Assignment, digest
    from autograder.feedback import as_text
    from autograder.grade import course_key, read_regular
    from autograder.score import grade_submission
    from autograder.verdict import Task

    assignment = Assignment.load(args.course, args.assignment or args.notebook.stem)
    data = read_regular(args.notebook.resolve(), MAX_NOTEBOOK)
    if data is None:
        raise FileNotFoundError(f"there is no file {args.notebook}")
    secret = hmac.digest(course_key(args.course), digest(data).encode(), "sha256")
    verdict = grade_submission(Task("", assignment, data, secret, sandboxed=not args.unsafe_no_sandbox))
    print(json.dumps(verdict.as_json(), indent=1, ensure_ascii=False) if args.json else as_text(verdict))
    return 0 if verdict.score == verdict.max_score else 1


def grade(args: argparse.Namespace) -> int:
    from autograder.grade import start_workers

    start_zygote()
    start_workers()  # both import torch while this process imports nbgrader
    from collections import Counter
    from dataclasses import replace

    from tqdm import tqdm

    from autograder.grade import Grading, find_submissions, grade_class, in_processes
    from autograder.gradebook import Book
    from autograder.lateness import LatePolicy
    from autograder.report import record

    submitted = args.submissions or args.course / "class" / "submitted"
    if not submitted.is_dir():
        raise FileNotFoundError(f"there is no folder {submitted} with submissions")
    output = args.output or submitted.absolute().parent
    names = args.assignments or sorted(p.parent.name for p in (args.course / "solutions").glob("*/*.ipynb"))
    found = find_submissions(submitted, names)
    limits = replace(Limits(), **{f"{n}_seconds": getattr(args, f"{n}_seconds") for n in ("cell", "test", "total")})
    grading = Grading(args.course, output, limits, not args.unsafe_no_sandbox)
    for name in args.assignments:
        grading.assignment(name)  # a name nobody knows is an error, not an empty class
    url = args.db or f"sqlite:///{output.absolute()}/gradebook.db"
    executor = in_processes
    if args.scheduler:
        from autograder.cluster import on_cluster

        executor = on_cluster(args.scheduler)
    with tqdm(total=len(found), unit=" submissions", disable=None, dynamic_ncols=True) as bar:

        def show(verdict):
            bar.set_postfix_str(f"{verdict.student} {verdict.score:g}/{verdict.max_score:g} {verdict.state}")
            bar.update()

        verdicts = grade_class(grading, found, url, args.workers or os.cpu_count() or 1, show, executor)
    record(output, verdicts)
    with Book(url) as book:
        LatePolicy.load(args.course).apply(book.api)
    if args.json:
        text = json.dumps([v.as_json() for v in verdicts], indent=1, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")
    for verdict in verdicts:
        points = f"{verdict.score:5g} / {verdict.max_score:<5g}"
        print(f"{verdict.student:20} {verdict.assignment:18} {points} {verdict.state}")
    states = ", ".join(f"{count} {state}" for state, count in Counter(v.state for v in verdicts).most_common())
    print(f"{len(verdicts)} submissions: {states or 'nothing to grade'}")
    return 0


def verify(args: argparse.Namespace) -> int:
    start_zygote()
    from autograder.grade import verify as grade_again

    differences = grade_again(args.course, args.receipt)
    print("\n".join(differences) if differences else "Confirmed: graded again, with the same verdict on every test.")
    return 1 if differences else 0


def feedback(args: argparse.Namespace) -> int:
    from autograder.feedback import write_feedback

    output = args.output or args.course / "class"
    pages = write_feedback(output, args.course, args.book)
    if not pages:
        raise Problem(f"there are no receipts in {output}: grade first")
    print(f"{len(pages)} pages written")
    return 0


def matrix(args: argparse.Namespace) -> int:
    start_zygote()
    from autograder.accuracy import as_page, measure

    rows = []
    for name in args.assignments or sorted(p.stem for p in (args.course / "assignments").glob("[0-9][0-9]_*.md")):
        found = measure(args.course, name, args.workers or os.cpu_count() or 1)
        bad = [row for row in found if not row.good]
        print(f"{name}: {len(found)} versions, {len(bad)} not as they should be", flush=True)
        print(*(f"  {textwrap.shorten(row.problem, 200)}\n" for row in bad), sep="", end="")
        rows += found
    if args.write:
        args.write.write_text(as_page(rows), encoding="utf-8")
    return 0 if all(row.good for row in rows) else 1


def assemble(args: argparse.Namespace) -> int:
    start_zygote()
    from autograder.assemble import CERTIFICATE, said
    from autograder.assemble import assemble as make

    workers = args.workers or os.cpu_count() or 1
    pieces, agreement = make(args.course, args.exercises, args.output, workers, not args.unsafe_no_sandbox)
    for piece in pieces:
        print(f"  {piece.assignment:16} {piece.name:30} {f'reference: {piece.reason}' if piece.reason else 'your own'}")
    print(f"\n{sum(not p.reason for p in pieces)} of {len(pieces)} pieces are your own. {said(agreement)}")
    print(f"The package is {args.output}; its certificate is {args.output / CERTIFICATE}.")
    return 1 if agreement.problem else 0


if __name__ == "__main__":
    sys.exit(main())
