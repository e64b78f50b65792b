"""Chapter 06: what a stack costs and what makes it faster, as ratios of medians over interleaved rounds on one core."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.heads import merge_heads, split_heads
from encoder.layer import EncoderLayer
from encoder.packing import attend
from encoder.stack import Encoder, mixed_precision, padding_mask, prepare

torch.set_num_threads(1)
SEEDS = [0]
ROUNDS = 9
LAYERS, D, H, F, B, T = 4, 256, 8, 1024, 16, 128
CPU = torch.device("cpu")


@torch.inference_mode()
def medians(ways: dict[str, Callable[[], torch.Tensor]], rounds: int = ROUNDS) -> dict[str, float]:
    """CPU seconds of each way, so that a busy machine does not count; one after the other in every round."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            way()
            taken[name].append(time.process_time() - start)
    return {name: median(seconds) for name, seconds in taken.items()}


def in_bfloat16(way: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    def run() -> torch.Tensor:
        with mixed_precision(CPU):
            return way()

    return run


torch.manual_seed(SEEDS[0])
ours = Encoder(LAYERS, D, H, F).eval()
layer = nn.TransformerEncoderLayer(D, H, F, 0.0, "gelu", batch_first=True, norm_first=True)
theirs = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D), enable_nested_tensor=False).eval()
compiled = prepare(Encoder(LAYERS, D, H, F).eval(), CPU, compile=True)
lengths = torch.linspace(T // 2, T, B).long()  # three quarters of the batch are real tokens
mask, x = padding_mask(lengths, T), torch.randn(B, T, D)
real = mask[:, 0, 0]
speed = medians(
    {
        "padded": lambda: ours(x, mask),
        "nn.TransformerEncoder": lambda: theirs(x, src_key_padding_mask=~real),
        "compiled": lambda: compiled(x, mask),
        "packed": lambda: ours(x, lengths=lengths),
        "bfloat16": in_bfloat16(lambda: ours(x, mask)),
        "packed and bfloat16": in_bfloat16(lambda: ours(x, lengths=lengths)),
    }
)

one = EncoderLayer(D, H, F).eval()
sizes = [128, 256, 512, 1024, 2048]
inputs = {n: torch.randn(1, n, D) for n in sizes}
by_length = medians({str(n): lambda n=n: one(inputs[n]) for n in sizes}, 5)
by_part = {
    "attention": medians({str(n): lambda n=n: one.attention(inputs[n]) for n in sizes}, 5),
    "feedforward": medians({str(n): lambda n=n: one.feedforward(inputs[n]) for n in sizes}, 5),
}


queries, keys = inputs[512][:, :64], inputs[512]
with torch.inference_mode():  # made once, so that both ways below do the same arithmetic
    k, v = (split_heads(proj(keys), H) for proj in (one.attention.k_proj, one.attention.v_proj))


def read(x: torch.Tensor) -> torch.Tensor:
    return one.attention.out_proj(merge_heads(attend(split_heads(one.attention.q_proj(x), H), k, v)))


serial = medians(
    {
        "together": lambda: read(queries),
        "in turn": lambda: torch.cat([read(queries[:, t : t + 1]) for t in range(64)], 1),
    },
    rounds=51,
)

with torch.inference_mode():
    exact = ours(x, mask)
    with mixed_precision(CPU):
        rough = ours(x, mask).float()
    noise = torch.where(real[..., None], x, torch.randn_like(x))
    leak = (ours(noise, mask) - exact)[real].abs().max().item()
    alone = max((ours(x[b : b + 1, :n]) - exact[b, :n]).abs().max().item() for b, n in enumerate(lengths.tolist()))
    packed = (ours(x, lengths=lengths) - exact)[real].abs().max().item()
    short = torch.randn(1, 24, D)
    moved = torch.stack(
        [
            (one(short.index_copy(1, torch.tensor([s]), torch.randn(1, 1, D))) - one(short))[0].norm(dim=-1)
            for s in range(24)
        ],
        1,
    )

save(
    "06_stack",
    SEEDS,
    sizes={
        "layers": LAYERS,
        "d_model": D,
        "heads": H,
        "d_ff": F,
        "batch": B,
        "tokens": T,
        "fill": float(real.float().mean()),
    },
    speed_relative_to_padded={name: round(speed["padded"] / seconds, 3) for name, seconds in speed.items()},
    lengths=sizes,
    time_relative_to_shortest={
        "layer": [round(by_length[str(n)] / by_length[str(sizes[0])], 2) for n in sizes],
        **{part: [round(t[str(n)] / t[str(sizes[0])], 2) for n in sizes] for part, t in by_part.items()},
    },
    speedup_of_all_queries_at_once=round(serial["in turn"] / serial["together"], 1),
    bfloat16_largest_relative_error=round(((rough - exact)[real].abs().max() / exact.abs().max()).item(), 5),
    change_from_new_padding=leak,
    largest_difference_alone_or_in_a_batch=alone,
    largest_difference_packed_or_padded=packed,
    share_of_pairs_that_influence_each_other_in_one_layer=float((moved > 0).float().mean()),
)
