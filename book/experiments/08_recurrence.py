"""Chapter 08 over five seeds: gradient against distance, recall across a gap, time against length, who reads whom."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.positions import LearnedPositions
from encoder.recurrence import ConvEncoder, GRUCell, LSTMCell, RecurrentEncoder, RNNCell, gradient_by_distance
from encoder.stack import Encoder

SEEDS = list(range(5))
WIDTH, LENGTH = 32, 64
CONV_LAYERS = 8
torch.set_num_threads(1)
GAPS = [5, 20, 80]
GAINS = [0.5, 1.0, 2.0]
TIMED = [32, 128, 512, 2048]
OPEN = "LSTM, open forget gate"
CELLS = {"RNN": RNNCell, "LSTM": LSTMCell, "GRU": GRUCell}


def recurrent(cell: nn.Module) -> Callable[[Tensor], Tensor]:
    encoder = RecurrentEncoder(cell)
    return lambda x: encoder(x)[0]


def forgetful_less(cell: nn.Module) -> nn.Module:
    """An LSTM whose forget gate starts open, at σ(3) = 0.95: Gers et al. (2000)."""
    with torch.no_grad():
        cell.bias_ih[WIDTH : 2 * WIDTH] = 3.0
        cell.bias_hh[WIDTH : 2 * WIDTH] = 0.0
    return cell


def orthogonal(cell: nn.Module, gain: float) -> nn.Module:
    """An RNN that turns its state and stretches it by `gain`; inputs so small that tanh is nearly linear."""
    with torch.no_grad():
        nn.init.orthogonal_(cell.weight_hh, gain)
        cell.bias_ih.zero_()
        cell.bias_hh.zero_()
    return cell


def gradients() -> dict[str, list[float]]:
    """‖∂h_T/∂x_{T−d}‖ by distance d, averaged over four sequences."""
    x = torch.randn(4, LENGTH, WIDTH)
    encoders = {name: recurrent(cell(WIDTH, WIDTH)) for name, cell in CELLS.items()}
    encoders[OPEN] = recurrent(forgetful_less(LSTMCell(WIDTH, WIDTH)))
    encoders["convolution"] = ConvEncoder(CONV_LAYERS, WIDTH)
    encoders["attention"] = Encoder(1, WIDTH, 4, 2 * WIDTH)
    return {name: gradient_by_distance(encode, x).tolist() for name, encode in encoders.items()}


def explosion() -> list[float]:
    """‖∂h_T/∂x_1‖ / ‖∂h_T/∂x_T‖ of a nearly linear RNN for each gain of its recurrent matrix, 12 steps apart."""
    x = 1e-6 * torch.randn(4, 13, WIDTH)
    ratios = []
    for gain in GAINS:
        by_distance = gradient_by_distance(recurrent(orthogonal(RNNCell(WIDTH, WIDTH), gain)), x)
        ratios.append(float(by_distance[-1] / by_distance[0]))
    return ratios


class Recall(nn.Module):
    """Reads 1 + gap tokens and has to say, at the last one, which of 8 symbols came first."""

    def __init__(self, kind: str, gap: int):
        super().__init__()
        self.embedding = nn.Embedding(8, WIDTH)
        self.positions = LearnedPositions(gap + 1, WIDTH, std=0.5)
        if kind == "attention":
            self.encoder: nn.Module = Encoder(1, WIDTH, 4, 2 * WIDTH)
        else:  # torch.nn's fused loops, equal to RecurrentEncoder's (tests/encoder/test_recurrence.py)
            self.encoder = getattr(nn, kind.split(",")[0])(WIDTH, WIDTH, batch_first=True)
            if kind == OPEN:
                with torch.no_grad():
                    self.encoder.bias_ih_l0[WIDTH : 2 * WIDTH] = 3.0
        self.output = nn.Linear(WIDTH, 8)

    def forward(self, ids: Tensor) -> Tensor:
        states = self.encoder(self.positions(self.embedding(ids)))
        return self.output((states[0] if isinstance(states, tuple) else states)[:, -1])


def recall(kind: str, gap: int, seed: int, steps: int = 300) -> float:
    """Accuracy on fresh sequences after training; chance is 1/8."""
    torch.manual_seed(seed)
    model = Recall(kind, gap)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        ids = torch.randint(8, (64, gap + 1))
        loss = F.cross_entropy(model(ids), ids[:, 0])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ids = torch.randint(8, (1000, gap + 1))
    with torch.no_grad():
        return round(float((model(ids).argmax(-1) == ids[:, 0]).float().mean()), 3)


def seconds(run: Callable[[], object]) -> float:
    """CPU time of the fastest of seven runs: what others do on this machine is not counted."""
    times = []
    for _ in range(7):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@torch.no_grad()
def timings() -> dict[str, list[float]]:
    """CPU time of one forward pass of one sequence of width 64, relative to attention at the shortest length."""
    models = {"attention layer": Encoder(1, 64, 4, 256), "LSTM, fused": nn.LSTM(64, 64, batch_first=True)}
    models |= {"LSTM, step by step": RecurrentEncoder(LSTMCell(64, 64)), "convolution": ConvEncoder(1, 64)}
    measured = {name: [seconds(lambda: m(x)) for x in map(inputs, TIMED)] for name, m in models.items()}  # noqa: B023
    unit = measured["attention layer"][0]
    return {name: [round(t / unit, 2) for t in times] for name, times in measured.items()}


def inputs(length: int) -> Tensor:
    return torch.randn(1, length, 64)


@torch.no_grad()
def share_read(encode: Callable[[Tensor], Tensor]) -> float:
    """Of all pairs (output, input), the share where changing the input moves the output."""
    x = torch.randn(1, 12, 8)
    moved = 0
    for j in range(12):
        changed = x.clone()
        changed[:, j] = torch.randn(8)  # not a shift: LayerNorm would take that out
        moved += int(((encode(changed) - encode(x)).abs().amax(-1) > 1e-7).sum())
    return moved / 144


by_distance: dict[str, list] = {}
exploded = []
for seed in SEEDS:
    torch.manual_seed(seed)
    for name, values in gradients().items():
        by_distance.setdefault(name, []).append([float(f"{v:.4g}") for v in values])
    exploded.append([float(f"{v:.4g}") for v in explosion()])
recalled = {
    kind: [[recall(kind, gap, seed) for gap in GAPS] for seed in SEEDS[:3]]
    for kind in ("RNN", "LSTM", OPEN, "GRU", "attention")
}
torch.manual_seed(0)
two_ways = RecurrentEncoder(LSTMCell(8, 8), LSTMCell(8, 8))
save(
    "08_recurrence",
    SEEDS,
    gradient_by_distance=by_distance,
    gains=GAINS,
    gradient_after_12_steps_over_gradient_now=exploded,
    recall_gaps=GAPS,
    recall_accuracy=recalled,
    recall_seeds=SEEDS[:3],
    timed_lengths=TIMED,
    time_relative_to_attention_at_shortest=timings(),
    share_of_pairs_read={
        "LSTM": share_read(recurrent(LSTMCell(8, 8))),
        "bidirectional LSTM": share_read(lambda x: two_ways(x)[0]),
        "convolution, 2 layers": share_read(ConvEncoder(2, 8)),
        "attention, 1 layer": share_read(Encoder(1, 8, 2, 16)),
    },
    vectors_out_for_12_tokens={
        "RNN, last state": RecurrentEncoder(RNNCell(8, 8))(torch.randn(1, 12, 8))[1].numel() // 8,
        "Transformer encoder": Encoder(1, 8, 2, 16)(torch.randn(1, 12, 8)).size(1),
    },
    median_gradient_at_60_over_now={
        name: float(np.median([run[60] / run[0] for run in runs])) for name, runs in by_distance.items()
    },
)
