"""LayerNorm and the encoder layer, norm before or after. Chapter 05."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.feedforward import FeedForward
from encoder.heads import MultiHeadAttention
from encoder.packing import Packing


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """y = (x − μ) / √(σ² + ε) · γ + β, with mean and (biased) variance over the features of each token.

    x: (..., D)   weight γ, bias β: (D,)   returns (..., D)

    Ba et al. (2016).
    """
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * weight + bias


class LayerNorm(nn.Module):
    """`layer_norm` with its γ and β, through PyTorch's fused kernel: one pass over memory instead of six."""

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual connection: (B, T, D) → (B, T, D).

    norm_first=True  (pre-LN):  x + f(LN(x)), Xiong et al. (2020)
    norm_first=False (post-LN): LN(x + f(x)), as in Vaswani et al. (2017) and BERT

    mask and bias are those of `MultiHeadAttention`.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
        dropout: float = 0.0,
        activation: str = "gelu",
        eps: float = 1e-5,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feedforward = FeedForward(d_model, d_ff, activation)
        self.norm1 = LayerNorm(d_model, eps)
        self.norm2 = LayerNorm(d_model, eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, mask: Tensor | Packing | None = None, bias: Tensor | None = None) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask, bias=bias))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, bias=bias)))
        return self.norm2(x + self.dropout(self.feedforward(x)))
