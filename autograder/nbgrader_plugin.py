"""The same engine inside nbgrader: `nbgrader autograde` and formgrader's button give the scores that `grade` gives.

nbgrader_config.py puts `SubmissionExporter` where nbgrader reads a notebook, so that no broken or tampered file stops a
run or keeps an old score, and `TrustedExecute` where it would run cells and tests together.
"""

from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.assignment import MAX_NOTEBOOK, Assignment, Unreadable, read_cells
from autograder.grade import Grading, Submission, read_regular
from autograder.restore import restore
from autograder.score import grade_submission


class SubmissionExporter(NotebookExporter):
    """Reads a submission with its locked cells as handed out; an unreadable one as a notebook without answers."""

    def from_filename(self, filename, resources=None, **kwargs):
        root = Path(CourseDirectory(config=self.config).root)
        assignment = Assignment.load(root, resources["nbgrader"]["assignment"])
        try:
            cells = read_cells(read_regular(Path(filename), MAX_NOTEBOOK) or b"")
        except Unreadable:
            cells = []
        text = restore(assignment, cells).as_notebook({})
        return self.from_notebook_node(nbformat.reads(text, as_version=4), resources, **kwargs)


class TrustedExecute(NbGraderPreprocessor):
    """In place of nbgrader's Execute: grades the submission as it was handed in, and leaves the verdict as outputs."""

    def preprocess(self, nb, resources):
        course, info = CourseDirectory(config=self.config), resources["nbgrader"]
        folder = course.format_path(course.submitted_directory, info["student"], info["assignment"])
        submission = Submission(info["student"], info["assignment"], Path(folder))
        grading = Grading(Path(course.root), submission.folder.parents[2])
        task = grading.task(submission)
        verdict = grade_submission(task)
        self.log.info("%s: %g of %g points, %s", verdict.student, verdict.score, verdict.max_score, verdict.state)
        grading.receipt(submission, task, verdict).write(grading.receipt_path(submission))
        return nbformat.reads(verdict.notebook, as_version=4), resources
