"""The encoder beside `transformers` (sdpa) and `nn.TransformerEncoder`: the same weights, the same batches, one run.

    python -m benchmarks.bench_encoder            everything, several minutes; writes benchmarks/RESULTS.md
    python -m benchmarks.bench_encoder --quick    one round, tiny sizes, writes nothing: does it still run?

Contestants take turns within a round, so that a busy machine slows all of them alike; a ratio is the median over the
rounds of the ratio within a round. Outputs are compared before anything is timed.
"""

import argparse
import copy
import os
import re
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.results import machine, table, write_section
from encoder.attention import scaled_dot_product_attention
from encoder.onednn import use_onednn
from encoder.packing import attend
from encoder.stack import Encoder, padding_mask

Job = Callable[[], object]
Forward = Callable[[], Tensor]
ROOT = Path(__file__).parents[1]
LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class Size:
    name: str
    n_layers: int
    d_model: int
    n_heads: int
    d_ff: int
    batch: int
    length: int

    def lengths(self) -> Tensor:
        """From half full to full: 75% of the batch is real tokens."""
        return torch.linspace(self.length // 2, self.length, self.batch).round().long()


SMALL = Size("small, 4 × 256", 4, 256, 4, 1024, 32, 128)
BASE = Size("BERT-base, 12 × 768", 12, 768, 12, 3072, 8, 128)
TINY = Size("tiny, 2 × 64", 2, 64, 2, 128, 4, 16)


def ours_theirs(size: Size) -> tuple[Encoder, nn.Module, nn.TransformerEncoder]:
    """The three encoders, post-LN as in BERT, with equal weights."""
    config = transformers.BertConfig(
        hidden_size=size.d_model,
        num_hidden_layers=size.n_layers,
        num_attention_heads=size.n_heads,
        intermediate_size=size.d_ff,
        hidden_dropout_prob=0.0,  # dropout on the weights is 4–9 times slower on a CPU, for all three alike
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-5,
        attn_implementation="sdpa",
    )
    library = transformers.BertModel(config, add_pooling_layer=False).encoder
    ours = Encoder(size.n_layers, size.d_model, size.n_heads, size.d_ff, norm_first=False)
    layer = nn.TransformerEncoderLayer(size.d_model, size.n_heads, size.d_ff, 0.0, "gelu", batch_first=True)
    builtin = nn.TransformerEncoder(layer, size.n_layers)
    for a, b, c in zip(ours.layers, library.layer, builtin.layers, strict=True):
        heads = b.attention.self
        for mine, linear in [
            (a.attention.q_proj, heads.query),
            (a.attention.k_proj, heads.key),
            (a.attention.v_proj, heads.value),
            (a.attention.out_proj, b.attention.output.dense),
            (a.feedforward.up, b.intermediate.dense),
            (a.feedforward.down, b.output.dense),
            (a.norm1, b.attention.output.LayerNorm),
            (a.norm2, b.output.LayerNorm),
            (c.self_attn.out_proj, b.attention.output.dense),
            (c.linear1, b.intermediate.dense),
            (c.linear2, b.output.dense),
            (c.norm1, b.attention.output.LayerNorm),
            (c.norm2, b.output.LayerNorm),
        ]:
            mine.load_state_dict(linear.state_dict())
        projections = (heads.query, heads.key, heads.value)
        with torch.no_grad():
            c.self_attn.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
            c.self_attn.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    return ours, library, builtin


def forwards(size: Size, padded: bool, dtype: torch.dtype = torch.float32) -> dict[str, tuple[nn.Module, Forward]]:
    """Name → model, and its forward pass on the common batch."""
    ours, library, builtin = (model.to(dtype) for model in ours_theirs(size))
    x = torch.randn(size.batch, size.length, size.d_model, dtype=dtype)
    fast = use_onednn(copy.deepcopy(ours))
    if not padded:
        return {
            "ours": (fast, lambda: fast(x)),
            "ours by MKL": (ours, lambda: ours(x)),
            "transformers": (library, lambda: library(x).last_hidden_state),
            "torch.nn": (builtin, lambda: builtin(x)),
        }
    lengths = size.lengths()
    mask = padding_mask(lengths, size.length)
    padding = ~mask[:, 0, 0]
    return {
        "ours": (fast, lambda: fast(x, lengths=lengths)),
        "ours by MKL": (ours, lambda: ours(x, lengths=lengths)),
        "transformers": (library, lambda: library(x, attention_mask=mask).last_hidden_state),
        "torch.nn": (builtin, lambda: builtin(x, src_key_padding_mask=padding)),
    }


def assert_agree(contestants: dict[str, tuple[nn.Module, Forward]], real: Tensor, tolerance: float = 1e-4) -> None:
    with torch.no_grad():
        outputs = [forward()[real].float() for _, forward in contestants.values()]
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0], atol=tolerance, rtol=tolerance)


def training_step(model: nn.Module, forward: Forward, autocast: bool = False) -> Job:
    """Forward, backward and AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = forward().float().square().mean()
        loss.backward()
        optimizer.step()

    return step


def rounds(jobs: dict[str, Job], count: int) -> dict[str, list[float]]:
    """Seconds of every job in every round; the first, untimed, warms up."""
    for job in jobs.values():
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(count):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def gemm_limit(size: Size, tokens: int, training: bool, dtype: torch.dtype, onednn: bool = False) -> Job:
    """The bare matrix products of all layers on this many tokens, nothing else; in training, three for each one."""
    widths = [(size.d_model, size.d_model)] * 4 + [(size.d_model, size.d_ff), (size.d_ff, size.d_model)]
    operands = []
    for d_in, d_out in widths:
        shapes = [((tokens, d_in), (d_out, d_in))]  # x and W; in the backward pass dy and Wᵀ, dyᵀ and xᵀ
        if training:
            shapes += [((tokens, d_out), (d_in, d_out)), ((d_out, tokens), (d_in, tokens))]
        operands += [[torch.randn(shape, dtype=dtype) for shape in pair] for pair in shapes]
    if onednn:
        operands = [[x.to_mkldnn() for x in pair] for pair in operands]

    def products() -> None:
        with torch.no_grad():
            for _ in range(size.n_layers):
                for a, b in operands:
                    F.linear(a, b)

    return products


def jobs_of(size: Size, padded: bool, training: bool) -> dict[str, Job]:
    """All contestants in fp32 and, on padded batches, in bf16: with autocast to train, with bf16 weights to infer."""
    tokens = int(size.lengths().sum()) if padded else size.batch * size.length
    real = padding_mask(size.lengths(), size.length)[:, 0, 0] if padded else torch.ones(size.batch, size.length).bool()
    contestants = forwards(size, padded)
    assert_agree(contestants, real)
    jobs: dict[str, Job] = {
        "MKL": gemm_limit(size, tokens, training, torch.float32),
        "oneDNN": gemm_limit(size, tokens, training, torch.float32, onednn=True),
    }
    for name, (model, forward) in contestants.items():
        model.train(training)
        jobs[name] = training_step(model, forward) if training else forward
    if padded:
        jobs["bf16"] = gemm_limit(size, tokens, training, torch.bfloat16)
        low = contestants if training else forwards(size, padded, torch.bfloat16)
        for name, (model, forward) in low.items():
            model.train(training)
            jobs[f"{name} bf16"] = training_step(model, forward, autocast=True) if training else forward
        assert_agree(low, real, 0.2)
    return jobs


def compare(size: Size, training: bool, count: int) -> list[list[str]]:
    """A line each: unpadded; padded; padded in bf16 against their fp32, and against their bf16."""
    with torch.set_grad_enabled(training):
        unpadded = rounds(jobs_of(size, False, training), count)
        padded = rounds(jobs_of(size, True, training), count)
    full, low = ["transformers", "torch.nn"], ["transformers bf16", "torch.nn bf16"]
    goal = 1.2 if training else 1.1
    lines = []
    for setting, seconds, ours, theirs, gemm, target in [
        ("unpadded", unpadded, "ours", full, "oneDNN", 0.95),
        ("unpadded, ours by MKL", unpadded, "ours by MKL", full, "MKL", 0.95),
        ("75% full", padded, "ours", full, "oneDNN", goal),
        ("75% full, ours by MKL", padded, "ours by MKL", full, "MKL", None),
        ("75% full, ours in bf16", padded, "ours bf16", full, "bf16", 1.8),
        ("75% full, all in bf16", padded, "ours bf16", low, "bf16", 1.0),
    ]:
        medians = {name: statistics.median(seconds[name]) for name in (ours, *theirs)}
        best = min(theirs, key=medians.__getitem__)
        faster = statistics.median(a / b for a, b in zip(seconds[best], seconds[ours], strict=True))
        limit = statistics.median(a / b for a, b in zip(seconds[gemm], seconds[ours], strict=True))
        verdict = ["", ""] if target is None else [f"{target}×", "yes" if faster >= target else "NO"]
        lines.append(
            [size.name, "training step" if training else "forward", setting]
            + [f"{1e3 * t:.0f}" for t in medians.values()]
            + [f"{faster:.2f}×", *verdict, f"{limit:.0%}"]
        )
    return lines


def by_length(lengths: list[int], count: int) -> list[list[str]]:
    """Explicit attention beside the fused kernel: time and peak memory of a forward and of a training step."""
    lines = []
    for length in lengths:
        jobs = {
            f"{name} {kind}": attention_job(name, kind, length)
            for name in ("explicit", "fused")
            for kind in ("forward", "training")
        }
        seconds = rounds(jobs, count)
        line = [str(length)]
        for kind in ("forward", "training"):
            times = [statistics.median(seconds[f"{name} {kind}"]) for name in ("explicit", "fused")]
            peaks = [peak_memory(name, kind, length) for name in ("explicit", "fused")]
            line += [f"{1e3 * t:.1f}" for t in times]
            line += [f"{times[0] / times[1]:.1f}×"]
            line += [f"{p:.1f}" for p in peaks]
        lines.append(line)
    return lines


def attention_job(name: str, kind: str, length: int) -> Job:
    q, k, v = (torch.randn(1, 8, length, 64, requires_grad=kind == "training") for _ in range(3))

    def run() -> None:
        output = scaled_dot_product_attention(q, k, v)[0] if name == "explicit" else attend(q, k, v)
        if kind == "training":
            torch.autograd.grad(output.sum(), (q, k, v))

    return run


def peak_memory(name: str, kind: str, length: int) -> float:
    """MB above what the process held before, in a process of its own: a peak once reached is never forgotten."""
    command = [sys.executable, "-m", "benchmarks.bench_encoder", "--peak", name, kind, str(length)]
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def print_peak(name: str, kind: str, length: int) -> None:
    attention_job(name, kind, 64)()  # what every first call allocates
    job = attention_job(name, kind, length)
    if LINUX:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak reached while importing
    before = peak_so_far()
    job()
    print(peak_so_far() - before)


def peak_so_far() -> float:
    """MB. On Linux not from getrusage, which also knows the peak of the parent process."""
    if LINUX:
        return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # macOS counts bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, nothing written")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    torch.manual_seed(0)
    if options.peak:
        name, kind, length = options.peak
        return print_peak(name, kind, int(length))
    warnings.filterwarnings("ignore", message=".*nested tensors is in prototype.*")
    sizes = [TINY] if options.quick else [SMALL, BASE]
    count = 1 if options.quick else options.rounds
    head = ["size", "what", "batch", "ours, ms", "transformers", "torch.nn", "ours faster", "target", "holds"]
    rows = [row for size in sizes for training in (False, True) for row in compare(size, training, count)]
    speed = table([*head, "GEMM limit"], rows)
    columns = ["explicit, ms", "fused, ms", "faster", "explicit, MB", "fused, MB"]
    lengths = [128, 256] if options.quick else [128, 256, 512, 1024, 2048, 4096]
    cost_head = ["length", *(f"{kind}: {column}" for kind in ("forward", "step") for column in columns)]
    cost = table(cost_head, by_length(lengths, count))
    print(machine(), speed, cost, sep="\n\n")
    if not options.quick:
        write_section("Encoder: speed", f"{machine()}. {ABOUT_SPEED}\n\n{speed}")
        write_section("Encoder: cost against length", f"{machine()}. {ABOUT_COST}\n\n{cost}")


ABOUT_SPEED = (
    "Post-LN encoders with equal weights and no dropout, whose outputs are compared before they are timed. "
    "`transformers` runs sdpa; `torch.nn` is `nn.TransformerEncoder`, whose forward takes its nested fast path on "
    "padded batches. Ours gets `lengths` and packs; its fp32 products are those of oneDNN (`use_onednn`), or of MKL "
    "like theirs where the line says so. A training step is forward, backward and AdamW. bf16 is autocast in training "
    "and bf16 weights in inference. *Ours faster*: against the better of the two. *GEMM limit*: the time of the bare "
    "matrix products on real tokens, by the same library, over ours."
)
ABOUT_COST = "One sequence, 8 heads of width 64: self-attention alone. Memory is the peak above what was held before."

if __name__ == "__main__":
    main()
