"""A decoder that reads an encoder: cross-attention, teacher forcing, greedy decoding. Chapter 09."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.attention import attention_weights
from encoder.checks import check_ids, check_width
from encoder.feedforward import FeedForward
from encoder.heads import MultiHeadAttention, split_heads
from encoder.layer import LayerNorm
from encoder.masks import causal_mask
from encoder.positions import sinusoidal_positions
from encoder.stack import Encoder


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention to the encoder's output, feed-forward, each in a residual: (B, T, D) → (B, T, D).

    memory: (B, S, D)   mask: who reads whom in the target, (T, T)   memory_mask: real source tokens, (B, 1, 1, S)

    Queries of the cross-attention come from the target, keys and values from the memory. Norms as in `EncoderLayer`.
    Vaswani et al. (2017), section 3.1.
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
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feedforward = FeedForward(d_model, d_ff, activation)
        self.norm1 = LayerNorm(d_model, eps)
        self.norm2 = LayerNorm(d_model, eps)
        self.norm3 = LayerNorm(d_model, eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory_mask, memory)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class Decoder(nn.Module):
    """L layers, all reading the same memory, and a last LayerNorm when they are pre-LN: (B, T, D) → (B, T, D)."""

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        norm_first: bool = True,
        dropout: float = 0.0,
        activation: str = "gelu",
        eps: float = 1e-5,
    ):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, n_heads, d_ff, norm_first, dropout, activation, eps) for _ in range(n_layers)
        )
        self.norm = LayerNorm(d_model, eps) if norm_first else nn.Identity()

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)


def shift_right(target: Tensor, bos_id: int) -> Tensor:
    """What the decoder is given while it learns to say `target`: <bos>, then all but the last token. (B, T) → (B, T)

    Position t holds token t − 1 and has to predict token t: teacher forcing. Williams and Zipser (1989).
    """
    check_width(target, target.size(-1), rank=2)
    return torch.cat([torch.full_like(target[:, :1], bos_id), target[:, :-1]], 1)


def seq2seq_loss(logits: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """Mean of −log p(target) over the tokens that are not padding: logits (B, T, V), target (B, T) → scalar."""
    check_width(logits, logits.size(-1))
    if logits.shape[:2] != target.shape:
        raise ValueError(f"expected a target of shape {tuple(logits.shape[:2])}, got {tuple(target.shape)}")
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")
    return total / (target != pad_id).sum().clamp(min=1)


@dataclass(frozen=True)
class Seq2SeqConfig:
    source_vocab: int
    target_vocab: int
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    d_ff: int = 128
    norm_first: bool = True
    dropout: float = 0.0
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2


class Seq2Seq(nn.Module):
    """p(target token t | source, target tokens before t): source (B, S), target_in (B, T) → logits (B, T, V).

    Ids equal to pad_id are never read: in the source they are masked, in the target they stand after all real tokens.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        sizes = (config.n_layers, config.d_model, config.n_heads, config.d_ff, config.norm_first, config.dropout)
        self.source_embedding = nn.Embedding(config.source_vocab, config.d_model)
        self.target_embedding = nn.Embedding(config.target_vocab, config.d_model)
        self.encoder = Encoder(*sizes)
        self.decoder = Decoder(*sizes)
        self.output = nn.Linear(config.d_model, config.target_vocab)
        self.dropout = nn.Dropout(config.dropout)

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """(B, T) ids → (B, T, D), each token's vector plus the sinusoid of its place."""
        check_ids(ids, table.num_embeddings)
        x = table(ids)
        return self.dropout(x + sinusoidal_positions(x.size(1), x.size(2), device=x.device, dtype=x.dtype))

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids (B, S) → memory (B, S, D) and its mask (B, 1, 1, S)."""
        mask = (source != self.config.pad_id)[:, None, None, :]
        return self.encoder(self.embed(self.source_embedding, source), mask), mask

    def decode(self, target_in: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Logits (B, T, V) of the token that follows each prefix of target_in (B, T)."""
        x = self.embed(self.target_embedding, target_in)
        return self.output(self.decoder(x, memory, causal_mask(x.size(1), x.device), memory_mask))

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        return self.decode(target_in, *self.encode(source))


def greedy_ids(
    decode: Callable[[Tensor], Tensor], start: Tensor, max_length: int, eos_id: int = 2, pad_id: int = 0
) -> Tensor:
    """The likeliest next token, again and again, until all rows have ended: (B, 1) → (B, ≤ max_length).

    decode: the ids so far, (B, t) → logits (B, t, V) of the token after each   start: (B, 1), not part of the answer
    A row ends with eos_id, then pad_id; a row cut at max_length has no eos_id.
    """
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)  # (B, 1)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


@torch.no_grad()
def greedy_decode(model: Seq2Seq, source: Tensor, max_length: int) -> Tensor:
    """`greedy_ids` of a model's answer to a source, which is encoded once: (B, S) → (B, ≤ max_length).

    Puts the model in eval mode.
    """
    model.eval()
    config, (memory, mask) = model.config, model.encode(source)
    start = torch.full_like(source[:, :1], config.bos_id)
    return greedy_ids(lambda ids: model.decode(ids, memory, mask), start, max_length, config.eos_id, config.pad_id)


@torch.no_grad()
def cross_attention_weights(model: Seq2Seq, source: Tensor, target_in: Tensor, layer: int = -1) -> Tensor:
    """Which source tokens each target position reads in one layer's cross-attention: (B, H, T, S), rows sum to 1.

    The model runs as ever; what goes into that attention is caught on the way, and its weights are computed again.
    """
    attention: Any = model.decoder.layers[layer].cross_attention
    caught: list[tuple[Tensor, ...]] = []
    handle = attention.register_forward_pre_hook(lambda module, inputs: caught.append(inputs))
    model.eval()(source, target_in)
    handle.remove()
    x, mask, memory = caught[0]
    q = split_heads(attention.q_proj(x), attention.n_heads)  # (B, H, T, K)
    k = split_heads(attention.k_proj(memory), attention.n_heads)  # (B, H, S, K)
    return attention_weights(q, k, mask)
