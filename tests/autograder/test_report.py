"""What the class report is made of. How it behaves in a browser: tests/book/test_desk.py."""

import json
from dataclasses import replace

from tiny import NAME

from autograder.grade import Receipt
from autograder.gradebook import Book
from autograder.lms import grades
from autograder.rehearsal import write_class
from autograder.report import as_page, last_grading, record, report_data, sentences, write_report
from autograder.verdict import TestResult, Verdict


def verdict(student: str, *failed: int, diagnosis: str = "", assignment=None, **options) -> Verdict:
    tests = [
        TestResult(t.name, t.points, 0.0 if i in failed else t.points, i not in failed, t.hidden,
                   "no" if i in failed else "", diagnosis if i in failed else "", t.sentence, t.hash)
        for i, t in enumerate(assignment.tests)
    ]  # fmt: skip
    return Verdict(student, NAME, options.pop("state", "graded"), tuple(tests), **options)


def rows(assignment, verdicts, before=None) -> tuple[dict, dict]:
    from autograder.lms import Grade

    found = {v.student: v for v in verdicts}
    listed = [Grade(NAME, s, "", "", "", s in found, 0, v.score, 0, 6) for s, v in found.items()]
    listed.append(Grade(NAME, "nora", "", "", "", False, 0, 0, 0, 6))
    data = report_data(assignment, listed, found, before)
    return data, {row["id"]: row for row in data["students"]}


def test_a_misconception_is_counted_wherever_it_was_named(assignment):
    said = "You square instead of doubling."
    assert sentences(assignment) == {said: "double"}
    data, by_id = rows(
        assignment,
        [
            verdict("ada", 0, diagnosis=said, assignment=assignment),
            verdict("bob", 1, diagnosis=f"This comes from `double`: {said}", assignment=assignment),
            verdict("eve", 2, diagnosis="40% of the values that `Affine` gave are right.", assignment=assignment),
        ],
    )
    assert data["misconceptions"] == [{"sentence": said, "piece": "double"}]
    assert [by_id[s]["failed"][0][2] for s in ("ada", "bob", "eve")] == [0, 0, -1]
    assert "40% of the values" in data["texts"][by_id["eve"]["failed"][0][1]], "what else was said is kept"


def test_who_handed_in_nothing_is_listed_and_what_is_odd_wants_an_eye(assignment):
    odd = verdict("eve", assignment=assignment, state="tampered", notes=("Restored: a test.",))
    unsafe = verdict("bob", assignment=assignment, sandboxed=False)
    _, by_id = rows(assignment, [verdict("ada", assignment=assignment), odd, unsafe])
    assert by_id["nora"]["state"] == "nothing handed in" and by_id["nora"]["passed"] == []
    assert by_id["ada"]["eye"] == "" and "Restored: a test." in by_id["eve"]["eye"]
    assert "without a sandbox" in by_id["bob"]["eye"]


def test_changes_are_those_since_the_last_grading_that_differed(assignment, tmp_path):
    first = [verdict("ada", 0, assignment=assignment), verdict("bob", assignment=assignment)]
    second = [verdict("ada", assignment=assignment), verdict("bob", assignment=assignment, state="tampered")]
    second.append(verdict("eve", assignment=assignment))
    as_dict = lambda verdicts: {v.student: v for v in verdicts}  # noqa: E731
    record(tmp_path, first)
    assert last_grading(tmp_path, NAME, as_dict(first)) is None
    record(tmp_path, second)
    record(tmp_path, second)  # graded again, nothing new: the comparison stays
    _, by_id = rows(assignment, second, last_grading(tmp_path, NAME, as_dict(second)))
    assert by_id["ada"]["change"] == "5 → 6 points"
    assert by_id["bob"]["change"] == "graded → tampered" and by_id["eve"]["change"] == "new: 6 points"
    _, by_id = rows(assignment, first, last_grading(tmp_path, NAME, as_dict(first)))
    assert by_id["bob"]["change"] == "tampered → graded", "results newer than any record are compared with the last"


def test_data_cannot_leave_its_element(assignment):
    evil = verdict("</script><script>alert(1)</script>", 0, diagnosis="</script>", assignment=assignment)
    data, _ = rows(assignment, [evil])
    page = as_page(data)
    assert page.count("</script>") == 2 and "<script>alert" not in page


def test_points_on_the_page_are_those_of_the_gradebook(course, tmp_path):
    write_class(course, NAME, 6, tmp_path)
    with Book(f"sqlite:///{tmp_path}/gradebook.db") as book:
        submission = book.api.find_submission(NAME, "s000")
        submission.notebooks[0].grades[0].manual_score = 0.5
        submission.notebooks[0].late_submission_penalty = 0.25
        book.api.db.commit()
        expected = {grade.student: grade.score for grade in grades(book.api)}
        page = write_report(course, tmp_path, book.api, NAME).read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert {row["id"]: row["score"] for row in data["students"]} == expected
    receipt = Receipt.read(tmp_path / "receipts" / "s000" / f"{NAME}.json").verdict
    first = receipt.tests[0]
    assert expected["s000"] == replace(receipt, tests=(replace(first, score=0.5), *receipt.tests[1:])).score - 0.25
    assert expected["s005"] == 0 and data["students"][5]["state"] == "nothing handed in"
