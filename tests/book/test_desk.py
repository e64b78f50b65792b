"""The instructor's pages in a browser: 500 invented students, one page of feedback, one pair of similar answers."""

import csv
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from website import ROOT

from autograder.assignment import Assignment
from autograder.feedback import Chapter, pages
from autograder.feedback import as_page as feedback_page
from autograder.lms import Grade
from autograder.rehearsal import invented, people
from autograder.report import as_page, report_data
from autograder.similar import similar

NAME, COUNT = "01_attention", 500
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def verdicts() -> dict:
    assignment, chance = Assignment.load(ROOT, NAME), random.Random(0)
    found = {student: invented(assignment, student, chance) for student in list(people(COUNT))[:-1]}
    tests = [replace(t, passed=False, score=0.0, message=HOSTILE) for t in found["s000"].tests]
    return found | {"s000": replace(found["s000"], state="tampered", tests=tuple(tests), notes=(HOSTILE,))}


@pytest.fixture(scope="module")
def report(verdicts, tmp_path_factory) -> Path:
    assignment = Assignment.load(ROOT, NAME)
    grades = []
    for i, (student, (family, given)) in enumerate(people(COUNT).items()):
        score = verdicts[student].score if student in verdicts else 0.0
        late, penalty = (90_000.0, score / 10) if i % 17 == 0 else (0.0, 0.0)
        grades.append(
            Grade(NAME, student, family, given, "", student in verdicts, late, score, penalty, assignment.max_score)
        )
    before = {s: {"score": v.score, "state": v.state} for s, v in verdicts.items()}
    before |= {"s001": {"score": -1.0, "state": "crashed"}}
    del before["s002"]
    data = report_data(assignment, grades, verdicts, {"time": "yesterday", "students": before})
    path = tmp_path_factory.mktemp("desk") / "report.html"
    path.write_text(as_page(data), encoding="utf-8")
    return path


@pytest.fixture
def page(new_page, report: Path) -> Page:
    page = new_page()
    page.goto(report.as_uri())
    return page


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#students tbody td:nth-child({number})").all_inner_texts()


def test_500_students_are_sorted_by_any_column(page, verdicts):
    page.get_by_role("button", name="points", exact=True).click()
    up = [float(text) for text in column(page, 2)]
    assert len(up) == COUNT and up == sorted(up) and up[0] < up[-1]
    page.get_by_role("button", name="points", exact=True).click()
    assert [float(text) for text in column(page, 2)] == up[::-1]
    expect(page.locator("#students th").nth(1)).to_have_attribute("aria-sort", "descending")


def test_search_and_state_narrow_the_table_together(page, verdicts):
    page.get_by_label("Search").fill("müll")
    expected = [s for s, (family, _) in people(COUNT).items() if family == "Müller"]
    assert len(column(page, 1)) == len(expected)
    expect(page.locator("#shown")).to_have_text(f"{len(expected)} of {COUNT} students")
    states = {s: verdicts[s].state for s in expected if s in verdicts}
    state = next(state for state in states.values() if state != "graded")
    page.get_by_label("State").select_option(state)
    found = [s for s in states if states[s] == state]
    assert sorted(text.split()[-1] for text in column(page, 1)) == sorted(found)


def test_a_test_and_a_bar_filter_the_students(page, verdicts):
    failed = sum(not v.tests[3].passed for v in verdicts.values())
    page.locator("#tests button").nth(3).click()
    assert len(column(page, 1)) == failed
    top = page.locator("#distribution button").nth(9)
    top.click()
    assert f"{len(column(page, 1))} students" in top.get_attribute("aria-label")
    page.get_by_role("button", name="Remove the filter").click()
    assert len(column(page, 1)) == COUNT


def test_pass_rates_are_those_of_who_handed_in(page, verdicts):
    for i, text in enumerate(page.locator("#tests .rate").all_inner_texts()):
        assert text == f"{round(100 * sum(v.tests[i].passed for v in verdicts.values()) / len(verdicts))}%"


def test_the_heatmap_opens_the_sentence_and_the_students(page, verdicts):
    row = page.locator("#heat tbody tr").first
    several = row.locator("td button").filter(has_not_text=re.compile(r"^1$")).first
    several.click()
    dialog = page.get_by_role("dialog")
    sentence = dialog.locator("blockquote").inner_text()
    number = int(several.get_attribute("aria-label").rpartition(" ")[2]) - 1
    said = {s: [t.diagnosis.replace("`", "") for t in v.tests] for s, v in verdicts.items()}  # code is shown as code
    holders = [s for s in said if said[s][number] == sentence]
    assert len(holders) > 1 and dialog.locator(".people li").count() == len(holders)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    row.locator("th button").click()
    everyone = {s for s in said if sentence in said[s]}
    dialog.get_by_role("button", name="List them in the table").click()
    assert {text.split()[-1] for text in column(page, 1)} == everyone


def test_what_wants_an_eye_and_what_changed_is_listed(page, verdicts):
    odd = [s for s, v in verdicts.items() if v.state != "graded"]
    assert page.locator("#eye li").count() == len(odd)
    changes = page.locator("#changes li").all_inner_texts()
    assert len(changes) == 2
    assert "crashed → " in changes[0] and "-1 → " in changes[0] and "new: " in changes[1]


def test_texts_of_a_submission_stay_texts(page):
    page.get_by_label("Search").fill("s000")
    page.locator("#students tbody button").click()
    assert HOSTILE in page.get_by_role("dialog").inner_text()
    assert page.locator("main img, dialog img").count() == 0 and "owned" not in page.title()


def test_the_export_holds_the_rows_that_are_shown_and_quotes_names(page, tmp_path):
    page.get_by_label("Search").fill("smitty")
    shown = len(column(page, 1))
    with page.expect_download() as download:
        page.get_by_role("button", name="Export these as CSV").click()
    download.value.save_as(tmp_path / "out.csv")
    with open(tmp_path / "out.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == shown > 10 and rows[0]["name"].startswith('Smith "Smitty", ')


SIMILAR = """def f(x):
    total = 0
    for i in range(len(x)):
        total = total + x[i] ** 3 - 2 * i
    return total / 7"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["report", "feedback", "similar"])
def test_pages_are_accessible_in_light_and_dark_and_fit_a_phone(kind, scheme, new_page, report, verdicts, tmp_path):
    path = tmp_path / f"{kind}.html"
    if kind == "report":
        path = report
    elif kind == "feedback":
        path.write_text(feedback_page(verdicts["s000"], Chapter(ROOT, NAME), "https://example.org/book"), "utf-8")
    else:
        pairs = similar({"ada": SIMILAR, "bob": SIMILAR.replace("total", "s")}, [], "f")
        path.write_text(pages.get_template("similar.html").render(assignment=NAME, pairs=pairs, left_out=0), "utf-8")
        assert pairs
    page = new_page(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    if kind == "report":
        page.get_by_label("Search").fill("s00")  # axe need not look at 500 equal rows
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        found = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
    if kind == "report":
        page.locator("#heat tbody th button").first.click()
        found = Axe().run(page, context="dialog").response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []


def test_every_section_that_feedback_may_name_is_in_the_book(site):
    checked = 0
    for path in sorted((site / "book").glob("[0-9][0-9]_*.html")):
        html = path.read_text(encoding="utf-8")
        for section in Chapter(ROOT, path.stem).sections:
            assert not section.anchor or f'id="{section.anchor}"' in html, (path.name, section.title)
            checked += bool(section.anchor)
    assert checked > 5
