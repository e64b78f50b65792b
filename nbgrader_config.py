"""nbgrader on this course: solutions/ → exercises/ → class/submitted → class/autograded → class/feedback."""

from pathlib import Path

c = get_config()  # noqa: F821

root = Path(__file__).parent
c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "encoder"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = "class/submitted"
c.CourseDirectory.autograded_directory = "class/autograded"
c.CourseDirectory.feedback_directory = "class/feedback"
c.CourseDirectory.db_url = f"sqlite:///{root}/class/gradebook.db"

# Grading: learners' cells run in a sandbox, tests outside of it. See autograder/nbgrader_plugin.py.
c.Autograde.exporter_class = "autograder.nbgrader_plugin.SubmissionExporter"
c.Autograde.autograde_preprocessors = [
    "autograder.nbgrader_plugin.TrustedExecute",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# Lateness: what it costs, also for `autograder grade` and `export`. See autograder/lateness.py.
c.AssignLatePenalties.plugin_class = "autograder.lateness.LatePolicy"
# c.LatePolicy.due = {"01_attention": "2026-11-20 23:59 UTC"}
c.LatePolicy.per_day = 0.0  # share of the score that each day late costs
c.LatePolicy.grace_days = 0  # days late that cost nothing
