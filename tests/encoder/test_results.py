import pytest

from benchmarks import results


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path / "RESULTS.md")


def test_a_section_replaces_its_own_and_leaves_the_others():
    results.write_section("One", "first")
    results.write_section("Two", "| a | b |")
    results.write_section("One", "second")
    text = results.RESULTS.read_text()
    assert text.startswith(results.HEADER)
    assert "first" not in text and text.count("## One") == 1
    assert text.index("second") < text.index("## Two"), "in its old place"


def test_writing_the_same_again_changes_nothing():
    for name in ("One", "Two"):
        results.write_section(name, "text")
    before = results.RESULTS.read_text()
    results.write_section("One", "text")
    assert results.RESULTS.read_text() == before


def test_a_table_lines_up():
    lines = results.table(["a", "long head"], [["1", "2"], ["333", "4"]]).splitlines()
    assert lines[0] == "| a   | long head |" and lines[3] == "| 333 | 4         |"
    assert len({len(line) for line in lines}) == 1
