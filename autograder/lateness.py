"""What lateness costs. Set in nbgrader_config.py, used by `autograder grade` and `export` and by nbgrader itself.

c.LatePolicy.due = {"01_attention": "2026-11-20 23:59 UTC"}   # or set in nbgrader's own gradebook
c.LatePolicy.per_day = 0.1                                    # each day late costs a tenth of the score
c.LatePolicy.grace_days = 2                                   # and the first two cost nothing

A day that has begun counts. Extensions that nbgrader knows of are honoured before anything is counted.
"""

import math
from pathlib import Path

from nbgrader.api import Gradebook, SubmittedAssignment, SubmittedNotebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.utils import parse_utc
from sqlalchemy.orm import joinedload, undefer
from traitlets import Dict, Float, Integer
from traitlets.config import PyFileConfigLoader

DAY = 24 * 60 * 60


class LatePolicy(LateSubmissionPlugin):
    """The penalty for one notebook; without settings there is none."""

    due = Dict(help="Due date by assignment.").tag(config=True)
    per_day = Float(0.0, min=0.0, help="Share of the score that each day late costs.").tag(config=True)
    grace_days = Integer(0, min=0, help="Days late of each assignment that cost nothing.").tag(config=True)

    @classmethod
    def load(cls, root: Path) -> "LatePolicy":
        """As the course's nbgrader_config.py says."""
        if not (root / "nbgrader_config.py").exists():
            return cls()
        return cls(config=PyFileConfigLoader("nbgrader_config.py", str(root)).load_config())

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        days = math.ceil(total_seconds_late / DAY) - self.grace_days
        return round(score * min(1.0, self.per_day * max(0, days)), 2)

    def apply(self, api: Gradebook) -> None:
        """Make every penalty in the gradebook what the policy says now; a changed policy needs no new grading."""
        for assignment in api.assignments:
            if assignment.name in self.due:
                assignment.duedate = parse_utc(self.due[assignment.name])
        submission = joinedload(SubmittedNotebook.assignment)
        query = api.db.query(SubmittedNotebook).options(
            undefer(SubmittedNotebook.score), submission.joinedload(SubmittedAssignment.assignment)
        )
        for notebook in query:
            late = notebook.assignment.total_seconds_late
            student = notebook.assignment.student_id
            notebook.late_submission_penalty = (
                self.late_submission_penalty(student, notebook.score, late) if late else None
            )
        api.db.commit()
