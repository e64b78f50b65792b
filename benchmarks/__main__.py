"""Runs every benchmark of this folder, one after the other, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

for path in sorted(HERE.glob("bench_*.py")):
    print(f"== {path.stem}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}", *sys.argv[1:]], cwd=HERE.parent, check=True)
