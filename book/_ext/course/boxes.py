"""The boxes of a chapter: a quick question, where a piece lives, the assignment; and the map of the encoder."""

import ast
import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from . import html
from .html import ROOT, element, link, repository_file


class Quiz(SphinxDirective):
    """A question, then one list item an option: `- [x] text` or `- [ ] text`, and below it why it is right or wrong.

    Each option is a <details>: it answers a click or a key without any script, and a printed page shows no answers.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        question, _ = self.state.inline_text(self.arguments[0], self.lineno)
        parsed = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, parsed)
        items = [
            item for child in parsed.findall(nodes.bullet_list) for item in child if isinstance(item, nodes.list_item)
        ]
        group = f"quiz-{self.env.new_serialno('quiz')}"
        options = [self.option(item, group) for item in items if item.parent.parent is parsed]
        if not any("right" in option["classes"] for option in options):
            raise self.error("quiz: mark the right option with [x].")
        title = element("p", element("span", nodes.Text("Quick question"), classes=["box-kind"]), *question)
        return [element("div", title, *options, classes=["quiz", "box"], role="group", aria_label="Quick question")]

    def option(self, item: nodes.list_item, group: str) -> element:
        first, *why = item.children
        mark = re.match(r"\[([x ])\] ", first.astext())
        if not (mark and why):
            raise self.error(
                f"quiz: an option is '- [ ] text' or '- [x] text', a blank line, and why: {first.astext()!r}."
            )
        start = next(first.findall(nodes.Text))
        start.parent.replace(start, nodes.Text(start[mark.end() :]))
        right = mark[1] == "x"
        verdict = element("strong", nodes.Text("Right. " if right else "Not quite. "))
        why[0].insert(0, verdict)
        kind = "right" if right else "wrong"
        return element("details", element("summary", *first.children), *why, classes=["quiz-option", kind], name=group)


class LivesIn(SphinxDirective):
    """`{lives-in} encoder.attention.attention_weights …`: file, signature, docstring’s first line; never the body."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        title = element("p", nodes.Text("Where this lives in the encoder"), classes=["box-kind"])
        rows = [self.row(name) for name in self.arguments[0].split()]
        return [
            element("aside", title, *rows, classes=["lives-in", "box"], aria_label="Where this lives in the encoder")
        ]

    def row(self, dotted: str) -> element:
        package, module, *names = dotted.split(".")
        path = f"{package}/{module}.py"
        if not (ROOT / path).is_file():
            raise self.error(f"lives-in: there is no {path}, wanted for {dotted}.")
        self.env.note_dependency(str(ROOT / path))
        node: ast.AST = ast.parse((ROOT / path).read_text())
        for name in names:
            found = [child for child in getattr(node, "body", []) if getattr(child, "name", None) == name]
            if not found:
                raise self.error(f"lives-in: {path} defines no {'.'.join(names)}.")
            node = found[0]
        where = path if isinstance(node, ast.Module) else f"{path}#L{node.lineno}-L{node.end_lineno}"
        uri = repository_file(self.env.app, where)
        file = nodes.literal(path, path)
        row = element("p", link("", uri) if uri else element("span"))
        row[0] += file
        if names:
            row += [nodes.Text(" "), nodes.literal("", ".".join(names) + signature(node))]
        summary = (ast.get_docstring(node) or "").partition("\n")[0]
        words = [nodes.literal(part, part) if i % 2 else nodes.Text(part) for i, part in enumerate(summary.split("`"))]
        row += element("span", *words, classes=["summary"])
        return row


def signature(node: ast.AST) -> str:
    """The names of the parameters: what one has to know to call it."""
    if isinstance(node, ast.ClassDef):
        node = next((child for child in node.body if getattr(child, "name", "") == "__init__"), node)
    names = [argument.arg for argument in node.args.args if argument.arg != "self"] if hasattr(node, "args") else []
    return f"({', '.join(names)})"


class Assignment(SphinxDirective):
    """`{assignment}` at the end of chapter NN_stem: the exercise notebook to download, and a tick for progress."""

    has_content = True
    option_spec: ClassVar = {"minutes": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        stem = Path(self.env.docname).name
        path = f"exercises/{stem}/{stem}.ipynb"
        if not (ROOT / path).is_file():
            raise self.error(f"assignment: there is no {path}; run `make notebooks`.")
        self.env.note_dependency(str(ROOT / path))
        minutes = self.options.get("minutes")
        title = f"Build it · assignment {stem[:2]}" + (f" · about {minutes} minutes" if minutes else "")
        body = element("div")
        self.state.nested_parse(self.content, self.content_offset, body)
        download = addnodes.download_reference(
            "", "Download the notebook", reftarget=f"/{path}", refdoc=self.env.docname
        )
        actions = element("p", download, classes=["actions"])
        online = repository_file(self.env.app, path)
        if online and online.startswith("https://github.com/"):
            colab = online.replace("https://github.com/", "https://colab.research.google.com/github/")
            actions += [nodes.Text(" "), link("Open in Colab", colab)]
        kind = element("p", nodes.Text(title), classes=["box-kind"])
        attributes = {"data_assignment": stem, "aria_label": f"Assignment {stem[:2]}"}
        return [element("aside", kind, body, actions, classes=["assignment", "box"], **attributes)]


class EncoderMap(SphinxDirective):
    """The picture of the encoder; each part links to its chapter as soon as that chapter is in the book."""

    def run(self) -> list[nodes.Node]:
        source = Path(__file__).with_name("encoder_map.svg")
        self.env.note_dependency(str(source))

        def href(match: re.Match[str]) -> str:
            return f'href="{match[1]}.html"' if f"book/{match[1]}" in self.env.found_docs else ""

        svg = re.sub(r'data-chapter="(\w+)"', href, source.read_text())
        return [nodes.raw("", f'<div class="encoder-map">{svg}</div>', format="html")]


def setup(app: Sphinx) -> None:
    html.setup(app)
    app.add_directive("quiz", Quiz)
    app.add_directive("lives-in", LivesIn)
    app.add_directive("assignment", Assignment)
    app.add_directive("encoder-map", EncoderMap)
