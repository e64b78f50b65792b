"""The autograder: learners' code runs in a sandbox, tests run here, and only plain values cross."""

import sys

# jsonschema builds a grammar from this package at import, one second for every user of nbformat; it works without.
sys.modules.setdefault("rfc3987_syntax", None)


class Problem(Exception):
    """What the grader was given cannot be used; the sentence tells the person at the command line why."""
