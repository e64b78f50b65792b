"""Chapter 05 over several seeds: norm before or after, at initialisation and in training, with and without warm-up."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import save

from encoder.layer import EncoderLayer, LayerNorm

torch.set_num_threads(1)
SEEDS = [0, 1, 2]
DEPTHS = [6, 12, 24, 48]
VOCABULARY, LENGTH, WIDTH, HEADS = 8, 8, 32, 4
RATE, STEPS, BATCH, WARMUP = 2e-3, 400, 64, 100


class Stack(nn.Module):
    """`depth` layers of width D; pre-LN gets the last norm that it needs."""

    def __init__(self, depth: int, norm_first: bool, width: int = WIDTH):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, HEADS, 4 * width, norm_first) for _ in range(depth))
        self.norm = LayerNorm(width) if norm_first else nn.Identity()
        for p in self.layers.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)  # as in the original Transformer; PyTorch's default for Linear is smaller

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def gradients_at_start(depth: int, norm_first: bool, seed: int) -> list[float]:
    """Gradient norm of each layer's last matrix for a random linear loss."""
    torch.manual_seed(seed)
    stack = Stack(depth, norm_first)
    x, target = torch.randn(2, 8, 10, WIDTH)
    loss = (stack(x) * target).sum() / target[..., 0].numel()
    weights = [layer.feedforward.down.weight for layer in stack.layers]
    return [g.norm().item() for g in torch.autograd.grad(loss, weights)]


def jacobian_norms(depth: int, norm_first: bool, gain: float, seed: int) -> list[float]:
    """Spectral norm of ∂x_l/∂x_0 for l = 1 … depth, no last norm, all matrices times `gain`."""
    torch.manual_seed(seed)
    width, length = 16, 4
    stack = Stack(depth, norm_first, width)
    with torch.no_grad():
        for p in stack.layers.parameters():
            if p.dim() > 1:
                p *= gain
    x = torch.randn(1, length, width)
    total = torch.eye(length * width)
    norms = []
    for layer in stack.layers:
        one = torch.autograd.functional.jacobian(layer, x).reshape(length * width, length * width)
        total = one @ total
        norms.append(torch.linalg.matrix_norm(total, 2).item())
        x = layer(x).detach()
    return norms


class Reader(nn.Module):
    """Does the first token occur again? Read off the first position."""

    def __init__(self, depth: int, norm_first: bool):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(0.5 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(EncoderLayer(WIDTH, HEADS, 4 * WIDTH, norm_first) for _ in range(depth))
        self.norm = LayerNorm(WIDTH) if norm_first else nn.Identity()
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def sentences(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Half of them repeat their first token at one later place, the others never do."""
    draw = {"generator": generator}
    first, label = torch.randint(VOCABULARY, (n, 1), **draw), torch.randint(2, (n,), **draw)
    others = (first + 1 + torch.randint(VOCABULARY - 1, (n, LENGTH - 1), **draw)) % VOCABULARY
    again = F.one_hot(torch.randint(LENGTH - 1, (n,), **draw), LENGTH - 1).bool() & (label == 1)[:, None]
    return torch.cat([first, torch.where(again, first, others)], 1), label


def train(depth: int, norm_first: bool, warmup: int, seed: int) -> tuple[float, list[float]]:
    """Accuracy on 1000 new sentences, and the loss of every tenth step."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Reader(depth, norm_first)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / max(1, warmup)))
    losses = []
    for _ in range(STEPS):
        ids, label = sentences(BATCH, generator)
        loss = F.cross_entropy(model(ids), label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(round(loss.item(), 4))
    ids, label = sentences(1000, generator)
    with torch.no_grad():
        return (model(ids).argmax(-1) == label).float().mean().item(), losses[::10]


KINDS = {"pre-LN": True, "post-LN": False}
gradients = {
    kind: {str(depth): [gradients_at_start(depth, first, seed) for seed in SEEDS] for depth in DEPTHS}
    for kind, first in KINDS.items()
}
jacobians = {
    kind: {str(gain): [jacobian_norms(24, first, gain, seed) for seed in SEEDS] for gain in (1, 2)}
    for kind, first in KINDS.items()
}
training = [
    {"kind": kind, "layers": depth, "warmup": warmup, "runs": [train(depth, first, warmup, seed) for seed in SEEDS]}
    for depth in (6, 12)
    for kind, first in KINDS.items()
    for warmup in (0, WARMUP)
]
save(
    "05_layer",
    SEEDS,
    depths=DEPTHS,
    gradient_norm_of_each_layer=gradients,
    jacobian_norm_after_each_layer=jacobians,
    training_rate=RATE,
    training_steps=STEPS,
    training=[
        {"kind": t["kind"], "layers": t["layers"], "warmup": t["warmup"]}
        | {"accuracy": [round(a, 3) for a, _ in t["runs"]], "loss_every_tenth_step": [loss for _, loss in t["runs"]]}
        for t in training
    ],
)
