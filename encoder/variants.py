"""What RoBERTa, ALBERT and DeBERTa changed. Chapter 12."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from encoder.bert import Bert, BertConfig, BertLike, Embeddings, Pooler, attend_to_real, check_length, init_weights
from encoder.checks import check_divisible, check_ids
from encoder.feedforward import FeedForward
from encoder.heads import merge_heads, split_heads
from encoder.layer import EncoderLayer, LayerNorm


@dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """RoBERTa-base. Of the 514 positions, 0 … pad_id are never a token's. Liu et al. (2019)."""

    vocab_size: int = 50265
    max_length: int = 514
    n_segments: int = 1
    pad_id: int = 1
    eps: float = 1e-5


def roberta_positions(ids: Tensor, pad_id: int) -> Tensor:
    """Real tokens count from pad_id + 1; padding gets position pad_id: (B, T) → (B, T)."""
    real = ids != pad_id
    return real.cumsum(1) * real + pad_id


class Roberta(Bert):
    """BERT read with other positions. The rest of RoBERTa is its training: dynamic masking, no next sentence."""

    def positions(self, ids: Tensor) -> Tensor:
        check_length(ids, self.config.max_length - self.config.pad_id - 1)
        return roberta_positions(ids, self.config.pad_id)


@dataclass(frozen=True)
class AlbertConfig(BertConfig):
    """ALBERT-base. Lan et al. (2020)."""

    vocab_size: int = 30000
    d_embedding: int = 128
    dropout: float = 0.0
    activation: str = "gelu_tanh"


class SharedEncoder(nn.Module):
    """One post-LN layer applied L times: the depth of L layers, the parameters of one. (B, T, D) → (B, T, D)."""

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        activation: str = "gelu",
        eps: float = 1e-5,
    ):
        super().__init__()
        self.n_layers = n_layers
        self.layer = EncoderLayer(d_model, n_heads, d_ff, False, dropout, activation, eps)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for _ in range(self.n_layers):
            x = self.layer(x, mask)
        return x


class Albert(BertLike):
    """BERT with shared layers and a factorised embedding: V × E and E × D in place of V × D. (B, T) → (B, T, D)."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(
            config.vocab_size, config.d_embedding, config.max_length, config.n_segments, config.dropout, config.eps
        )
        self.widen = nn.Linear(config.d_embedding, config.d_model)
        self.encoder = SharedEncoder(
            config.n_layers, config.d_model, config.n_heads, config.d_ff, config.dropout, config.activation, config.eps
        )
        self.pooler = Pooler(config.d_model)
        self.apply(init_weights)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.encoder(self.widen(self.embeddings(ids, segments)), attend_to_real(mask, ids))

    def pool(self, hidden: Tensor) -> Tensor:
        return self.pooler(hidden)


@dataclass(frozen=True)
class DebertaConfig(BertConfig):
    """DeBERTa-base; `v3_base` for the second generation, He et al. (2021, 2023).

    buckets = 0: a distance is told apart from every other up to max_distance (v1, its own projections of positions)
    buckets > 0: far distances share logarithmic buckets (v2 and v3, which project positions as they do contents)
    """

    vocab_size: int = 50265
    n_segments: int = 0
    eps: float = 1e-7
    max_distance: int = 512
    buckets: int = 0

    @classmethod
    def v3_base(cls) -> "DebertaConfig":
        return cls(vocab_size=128100, buckets=256)


def log_buckets(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """Distances up to buckets/2 stay; beyond, they share buckets that grow with the logarithm, sign kept."""
    mid = buckets // 2
    far = distance.abs().clamp(min=mid).float()  # a value that the near ones never use, but whose logarithm exists
    steps = (far / mid).log() / far.new_full((), (max_distance - 1) / mid).log() * (mid - 1)
    return torch.where(distance.abs() <= mid, distance, ((steps.ceil() + mid) * distance.sign()).long())


def relative_index(size: int, span: int, device: torch.device, buckets: int = 0, max_distance: int = 512) -> Tensor:
    """δ(i, j), the row that query i and key j use in a table of 2·span relative positions: (T, T)."""
    place = torch.arange(size, device=device)
    distance = place[:, None] - place[None, :]  # i − j
    if buckets:
        distance = log_buckets(distance, buckets, max_distance)
    return distance.clamp(-span, span - 1) + span


def disentangled_scores(q: Tensor, k: Tensor, pos_q: Tensor, pos_k: Tensor, index: Tensor) -> Tensor:
    """(q_i·k_j + q_i·pos_k[δ(i, j)] + k_j·pos_q[δ(i, j)]) / √(3K): content to content, to position, and back.

    q, k: (B, H, T, K)   pos_q, pos_k: (1, H, R, K), a row for each relative position   index δ: (T, T)
    returns (B, H, T, T). He et al. (2021), equation 4, which writes δ(j, i) in the last term; its code uses δ(i, j).
    """
    index = index.expand(*q.shape[:2], *index.shape)
    to_content = q @ k.transpose(-2, -1)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, index)  # (B, H, T, R) → (B, H, T, T)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, index.transpose(-2, -1)).transpose(-2, -1)
    return (to_content + to_position + from_position) / math.sqrt(3 * q.size(-1))


class DisentangledAttention(nn.Module):
    """Multi-head attention whose scores are `disentangled_scores`.

    x: (B, T, D)   mask: bool, broadcastable to (B, H, T, T)   relative: (R, D) table and (T, T) rows in it
    memory: (B, T, D) that keys and values are read from, default x
    """

    def __init__(self, d_model: int, n_heads: int, shared: bool = False, dropout: float = 0.0):
        super().__init__()
        check_divisible(d_model, n_heads)
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model, bias=shared)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.pos_q_proj = None if shared else nn.Linear(d_model, d_model)
        self.pos_k_proj = None if shared else nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None, relative: tuple[Tensor, Tensor], memory: Tensor | None = None
    ) -> Tensor:
        memory = x if memory is None else memory
        table, index = self.dropout(relative[0])[None], relative[1]
        q = split_heads(self.q_proj(x), self.n_heads)  # (B, H, T, K)
        k = split_heads(self.k_proj(memory), self.n_heads)
        v = split_heads(self.v_proj(memory), self.n_heads)
        pos_q = split_heads((self.pos_q_proj or self.q_proj)(table), self.n_heads)  # (1, H, R, K)
        pos_k = split_heads((self.pos_k_proj or self.k_proj)(table), self.n_heads)
        scores = disentangled_scores(q, k, pos_q, pos_k, index)
        if mask is None:
            weights = scores.softmax(-1)
        else:
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
        return self.out_proj(merge_heads(self.dropout(weights) @ v))


class DebertaLayer(nn.Module):
    """A post-LN layer with disentangled attention. With a memory, x only asks: keys and values come from the memory."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        shared: bool = False,
        dropout: float = 0.0,
        activation: str = "gelu",
        eps: float = 1e-7,
    ):
        super().__init__()
        self.attention = DisentangledAttention(d_model, n_heads, shared, dropout)
        self.feedforward = FeedForward(d_model, d_ff, activation)
        self.norm1 = LayerNorm(d_model, eps)
        self.norm2 = LayerNorm(d_model, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None, relative: tuple[Tensor, Tensor], memory: Tensor | None = None
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, mask, relative, memory)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class TokenEmbeddings(nn.Module):
    """LayerNorm(token), then dropout: DeBERTa adds neither segments nor positions here. (B, T) → (B, T, D)."""

    def __init__(self, vocab_size: int, d_model: int, dropout: float = 0.1, eps: float = 1e-7):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.norm = LayerNorm(d_model, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        check_ids(ids, self.token.num_embeddings, "token")
        return self.dropout(self.norm(self.token(ids)))


class Deberta(BertLike):
    """Content and position kept apart in every layer: (B, T) → (B, T, D). Segments are accepted, and not read."""

    config: DebertaConfig

    def __init__(self, config: DebertaConfig):
        super().__init__()
        self.config = config
        self.span = config.buckets or config.max_distance
        shared = config.buckets > 0
        self.embeddings = TokenEmbeddings(config.vocab_size, config.d_model, config.dropout, config.eps)
        self.relative = nn.Embedding(2 * self.span, config.d_model)
        self.relative_norm = LayerNorm(config.d_model, config.eps) if shared else nn.Identity()
        self.layers = nn.ModuleList(
            DebertaLayer(
                config.d_model, config.n_heads, config.d_ff, shared, config.dropout, config.activation, config.eps
            )
            for _ in range(config.n_layers)
        )
        self.apply(init_weights)

    def read(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None, tuple[Tensor, Tensor]]:
        """What the layers are given: embedded tokens, mask of keys, relative positions and which to use where."""
        reach = min(ids.size(1), self.span)  # the rows that T tokens can use: no others need projecting
        table = self.relative_norm(self.relative.weight[self.span - reach : self.span + reach])
        index = relative_index(ids.size(1), reach, ids.device, self.config.buckets, self.config.max_distance)
        return self.embeddings(ids), attend_to_real(mask, ids), (table, index)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        x, keys, relative = self.read(ids, mask)
        for layer in self.layers:
            x = layer(x, keys, relative)
        return x

    def pool(self, hidden: Tensor) -> Tensor:
        return hidden[:, 0]  # pretrained without a next sentence, it has no pooler


class EnhancedMaskDecoder(BertLike):
    """DeBERTa's last layer run twice, asked with absolute positions, before a `MaskedLM` head: (B, T) → (B, T, D).

    h = all layers but the last;  z₀ = h + p;  z_{n+1} = layer_L(query z_n, keys and values h)

    "A new store opened beside the new mall": only where they stand tells the two nouns apart. He et al. (2021), 3.2.
    """

    def __init__(self, encoder: Deberta):
        super().__init__()
        self.config = encoder.config
        self.encoder = encoder
        self.position = nn.Embedding(encoder.config.max_length, encoder.config.d_model)
        init_weights(self.position)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        check_length(ids, self.config.max_length)
        hidden, keys, relative = self.encoder.read(ids, mask)
        for layer in self.encoder.layers[:-1]:
            hidden = layer(hidden, keys, relative)
        query = hidden + self.position.weight[: ids.size(1)]
        for _ in range(2):
            query = self.encoder.layers[-1](query, keys, relative, hidden)
        return query

    def pool(self, hidden: Tensor) -> Tensor:
        return self.encoder.pool(hidden)

    def table(self) -> Tensor:
        return self.encoder.table()
