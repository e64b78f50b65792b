"""Where benchmarks write what they measured: one section each in RESULTS.md, replaced whole on every run."""

import platform
import re
from pathlib import Path

import torch

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADER = "# Results\n\nWritten by `make bench`, never by hand.\n"


def machine() -> str:
    """The machine in one line: what a reader must know to compare."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (found := re.search(r"model name\s*: (.*)", cpuinfo.read_text())):
        model = found[1]
    parts = [model, f"{torch.get_num_threads()} threads", torch.backends.cpu.get_cpu_capability()]
    if torch.accelerator.is_available():
        parts.append(str(torch.accelerator.current_accelerator()))
    return ", ".join([*parts, f"PyTorch {torch.__version__}", f"Python {platform.python_version()}"])


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, columns padded so that the source can be read too."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)


def write_section(name: str, text: str) -> None:
    """Puts `text` under the heading `name`, in the place of what stood there before; other sections stay."""
    written = RESULTS.read_text() if RESULTS.exists() else HEADER
    head, *sections = re.split(r"^(?=## )", written, flags=re.MULTILINE)
    section = f"## {name}\n\n{text.strip()}\n"
    kept = {s.partition("\n")[0]: s.strip() + "\n" for s in sections}
    kept[f"## {name}"] = section
    RESULTS.write_text("\n".join([head.strip() + "\n", *kept.values()]))
