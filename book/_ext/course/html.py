"""A docutils node for any HTML element, and where things lie in the repository."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

ROOT = Path(__file__).resolve().parents[3]


class element(nodes.General, nodes.Element):
    """`element("details", open="open")` becomes <details open="open"> around its children."""

    def __init__(self, tag: str = "div", *children: nodes.Node, classes: list[str] | None = None, **attributes: str):
        super().__init__("", *children, tag=tag, html=attributes, classes=classes or [])


def link(text: str, uri: str, **attributes: str) -> element:
    return element("a", nodes.Text(text), href=uri, **attributes)


def repository_file(app: Sphinx, path: str) -> str | None:
    """The address of a file on the web, or None while _config.yml names no repository."""
    theme = app.config.html_theme_options
    url = theme.get("repository_url", "").rstrip("/")
    return f"{url}/blob/{theme.get('repository_branch') or 'main'}/{path}" if url else None


def visit(self: HTML5Translator, node: element) -> None:
    attributes = {name.replace("_", "-"): value for name, value in node["html"].items()}  # aria_label → aria-label
    self.body.append(self.starttag(node, node["tag"], suffix="", **attributes))


def depart(self: HTML5Translator, node: element) -> None:
    self.body.append(f"</{node['tag']}>")


def setup(app: Sphinx) -> None:
    app.add_node(element, html=(visit, depart))
