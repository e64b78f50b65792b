"""What this book adds to Jupyter Book: three boxes, hover previews, explorers, reading times, an offline copy."""

from sphinx.application import Sphinx

from . import boxes, previews, site


def setup(app: Sphinx) -> dict[str, bool]:
    for part in (boxes, previews, site):
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
