"""Hover previews of equations, glossary terms and references, put into the page when it is built: no request needed.

Each page carries a <template> for every such link on it; course.js shows it beside the link.
"""

import functools
import re
from html import escape

from docutils import nodes
from sphinx.application import Sphinx

COPIES_HAVE_NO = re.compile(r'<a class="headerlink".*?</a>|\sid="[^"]*"')


@functools.cache  # many pages point at the glossary
def targets(app: Sphinx, docname: str) -> dict[str, str]:
    """The HTML of each numbered equation and glossary term of a page, by anchor."""
    found = {}
    for node in app.env.get_and_resolve_doctree(docname, app.builder).findall(nodes.Element):
        if isinstance(node, nodes.math_block | nodes.term) and node["ids"]:
            shown = nodes.definition_list("", node.parent.deepcopy()) if isinstance(node, nodes.term) else node
            fragment = COPIES_HAVE_NO.sub("", app.builder.render_partial(shown)["fragment"])
            found.update(dict.fromkeys(node["ids"], fragment))
    return found


def add_previews(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    if doctree is None:
        return
    documents = {app.builder.get_relative_uri(pagename, name): name for name in app.env.found_docs} | {"": pagename}
    templates = {}
    for reference in doctree.findall(nodes.reference):
        href = reference.get("refuri") or f"#{reference.get('refid', '')}"
        page, _, anchor = href.partition("#")
        if anchor.startswith(("equation-", "term-")) and page in documents:
            templates[href] = targets(app, documents[page]).get(anchor)
        elif "bibtex-citation" in getattr(reference.parent, "attributes", {}).get("classes", []):
            templates[href] = escape(reference.get("reftitle", ""))
    context["body"] += "".join(
        f'<template data-preview="{href}">{content}</template>\n' for href, content in templates.items() if content
    )


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", add_previews, priority=700)
