"""What can be wrong with an import, in one line each."""
from ..dataset import DatasetError


class ImportProblem(DatasetError):
    """One line: what is wrong, where, and what would be right."""


class BadRecord(ImportProblem):
    """A record that cannot be used. --skip-malformed leaves such records out."""

    def __init__(self, where, column, value, problem):
        of_column = "" if column is None else f"column {column}: "
        super().__init__(f"{where}: {of_column}{shown(value)}{problem} (--skip-malformed leaves such records out)")


def shown(value):
    """A value as an error shows it: short, and without control characters."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    short = "".join(c if c.isprintable() else "?" for c in text[:40])
    return f"'{short}{'...' if len(text) > 40 else ''}' "
