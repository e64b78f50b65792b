"""BERT: what it reads, the encoder around it, what it predicts. Chapter 10.

Every BERT-like encoder here is called as `encoder(ids, mask, segments)` and returns one vector a token, (B, T, D).

ids: int64 (B, T)   mask: bool (B, T), True = a real token   segments: int64 (B, T), 0 in the first text, 1 in the next
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional as F

from encoder.checks import check_ids
from encoder.feedforward import ACTIVATIONS
from encoder.layer import LayerNorm
from encoder.stack import Encoder

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class BertConfig:
    """Sizes of BERT-Base, uncased, unless told otherwise. Devlin et al. (2019)."""

    vocab_size: int = 30522
    d_model: int = 768
    n_layers: int = 12
    n_heads: int = 12
    d_ff: int = 3072
    max_length: int = 512
    n_segments: int = 2
    pad_id: int = 0
    dropout: float = 0.1
    activation: str = "gelu"
    eps: float = 1e-12

    @classmethod
    def base(cls) -> "BertConfig":
        return cls()

    @classmethod
    def large(cls) -> "BertConfig":
        return cls(d_model=1024, n_layers=24, n_heads=16, d_ff=4096)


def check_length(ids: Tensor, longest: int) -> None:
    if ids.size(1) > longest:
        raise ValueError(f"the model reads at most {longest} tokens, got {ids.size(1)}")


def attend_to_real(mask: Tensor | None, ids: Tensor) -> Tensor | None:
    """A mask of real tokens (B, T) → a mask of keys (B, 1, 1, T), the same for every head and query."""
    if mask is None:
        return None
    if mask.dtype != torch.bool or mask.shape != ids.shape:
        raise ValueError(
            f"the mask must be torch.bool of shape {tuple(ids.shape)} with True = a real token, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    return mask[:, None, None, :]


class Embeddings(nn.Module):
    """LayerNorm(token + segment + position), then dropout: ids (B, T) → (B, T, D).

    segments: default all 0   positions: (B, T) or (T,), default 0 … T − 1

    Devlin et al. (2019), figure 2.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        max_length: int = 512,
        n_segments: int = 2,
        dropout: float = 0.1,
        eps: float = 1e-12,
    ):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.segment = nn.Embedding(n_segments, d_model)
        self.position = nn.Embedding(max_length, d_model)
        self.norm = LayerNorm(d_model, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, segments: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        check_ids(ids, self.token.num_embeddings, "token")
        check_length(ids, self.position.num_embeddings)
        segments = torch.zeros_like(ids) if segments is None else segments
        check_ids(segments, self.segment.num_embeddings, "segment")
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        x = self.token(ids) + self.segment(segments) + self.position(positions)  # (B, T, D)
        return self.dropout(self.norm(x))


class Pooler(nn.Module):
    """One vector a text: tanh(W x₀ + b), where x₀ is the state of the first token, [CLS]: (B, T, D) → (B, D)."""

    def __init__(self, d_model: int):
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.dense(hidden[:, 0]))


class BertLike(nn.Module):
    """What the heads ask of an encoder: to be called as above, and these."""

    config: BertConfig
    embeddings: Any

    def table(self) -> Tensor:
        """The token embeddings (V, ·), to which an MLM head is tied."""
        return self.embeddings.token.weight

    def pool(self, hidden: Tensor) -> Tensor:
        """States (B, T, D) → one vector a text (B, D)."""
        raise NotImplementedError


class Bert(BertLike):
    """Embeddings, then a post-LN encoder: (B, T) → (B, T, D). `pool` reads one vector a text from the result.

    lengths: (B,) in the place of a mask when all padding is at the end; then no work is done on it, and it comes out 0.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(
            config.vocab_size, config.d_model, config.max_length, config.n_segments, config.dropout, config.eps
        )
        self.encoder = Encoder(
            config.n_layers,
            config.d_model,
            config.n_heads,
            config.d_ff,
            norm_first=False,
            dropout=config.dropout,
            activation=config.activation,
            eps=config.eps,
        )
        self.pooler = Pooler(config.d_model)
        self.apply(init_weights)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> Tensor:
        x = self.embeddings(ids, segments, self.positions(ids))
        return self.encoder(x, attend_to_real(mask, ids), lengths=lengths)

    def positions(self, ids: Tensor) -> Tensor | None:
        return None  # 0 … T − 1

    def pool(self, hidden: Tensor) -> Tensor:
        return self.pooler(hidden)


class MLMHead(nn.Module):
    """Scores of every token of the vocabulary: LayerNorm(act(x W + b)) Eᵀ + c, (..., D) → (..., V).

    E, the `table`, is the token embedding itself (V, d_table): the weights are tied by passing them in, so that there
    is one copy to train, move and save. Press and Wolf (2017).
    """

    def __init__(self, vocab_size: int, d_model: int, d_table: int, activation: str = "gelu", eps: float = 1e-12):
        super().__init__()
        self.dense = nn.Linear(d_model, d_table)
        self.norm = LayerNorm(d_table, eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.activation = activation

    def forward(self, hidden: Tensor, table: Tensor) -> Tensor:
        hidden = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return F.linear(hidden, table, self.bias)


class NSPHead(nn.Module):
    """Does the second text follow the first? Scores of 0 = follows, 1 = does not: (B, D) → (B, 2)."""

    def __init__(self, d_model: int):
        super().__init__()
        self.classifier = nn.Linear(d_model, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.classifier(pooled)


class MaskedLM(nn.Module):
    """Any BERT-like encoder with a tied head for masked tokens: (B, T) → (B, T, V)."""

    def __init__(self, encoder: BertLike):
        super().__init__()
        self.encoder = encoder
        vocab_size, d_table = encoder.table().shape
        config = encoder.config
        self.mlm = MLMHead(vocab_size, config.d_model, d_table, config.activation, config.eps)
        self.mlm.apply(init_weights)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.mlm(self.encoder(ids, mask, segments), self.encoder.table())


class BertForPretraining(nn.Module):
    """BERT with both of its tasks: (B, T) → (B, T, V) for masked tokens and (B, 2) for the next sentence."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.encoder = Bert(config)
        self.mlm = MLMHead(config.vocab_size, config.d_model, config.d_model, config.activation, config.eps)
        self.nsp = NSPHead(config.d_model)
        self.apply(init_weights)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> tuple[Tensor, Tensor]:
        hidden = self.encoder(ids, mask, segments)
        return self.mlm(hidden, self.encoder.table()), self.nsp(self.encoder.pool(hidden))


def init_weights(module: nn.Module) -> None:
    """Every weight from N(0, 0.02²), every bias 0, as BERT was started."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def parameter_count(model: nn.Module) -> int:
    """How many numbers are trained; a weight used in two places counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def wordpiece(vocab: dict[str, int] | None = None) -> Tokenizer:
    """The lower-casing WordPiece tokenizer of BERT for a vocabulary {piece: id}, or one still to be trained."""
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if vocab is not None:
        tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def train_wordpiece(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn a lower-case WordPiece vocabulary; the special tokens get the ids 0 … 4 in the order of SPECIAL_TOKENS."""
    texts, fixed, vocab = list(texts), list(SPECIAL_TOKENS), dict[str, int]()
    for size in (0, vocab_size):
        # The trainer numbers the letters, and so breaks ties, in random order: learn the letters, then fix their order.
        tokenizer = wordpiece()
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=fixed, show_progress=False)
        tokenizer.train_from_iterator(texts, trainer)
        vocab = tokenizer.get_vocab()
        fixed += sorted(vocab.keys() - set(fixed))
    return wordpiece(vocab)


def token_id(tokenizer: Tokenizer, token: str) -> int:
    number = tokenizer.token_to_id(token)
    if number is None:
        raise ValueError(f"expected a tokenizer whose vocabulary holds {token}, got one without it")
    return number


def join_pair(
    first: Sequence[int], second: Sequence[int] | None, cls_id: int, sep_id: int, max_length: int
) -> tuple[list[int], list[int]]:
    """Token ids of one or two texts → (ids, segments) of [CLS] first [SEP] second [SEP].

    Segment 0 is [CLS] first [SEP], segment 1 is second [SEP]. When that is longer than max_length, tokens are cut from
    the end of the longer text, one at a time (of the first when both are equally long).
    """
    first, tail = list(first), list(second or [])
    room = max_length - (2 if second is None else 3)
    if room < 0:
        raise ValueError(f"max_length must leave room for the special tokens, got {max_length}")
    while len(first) + len(tail) > room:
        (tail if len(tail) > len(first) else first).pop()
    head = [cls_id, *first, sep_id]
    tail = [] if second is None else [*tail, sep_id]
    return head + tail, [0] * len(head) + [1] * len(tail)


def encode_pairs(
    tokenizer: Tokenizer, pairs: Sequence[tuple[str, str | None]], max_length: int = 128
) -> tuple[Tensor, Tensor, Tensor]:
    """Texts (first, second or None) → (ids, mask, segments), each (B, T), padded to the longest of them."""
    pad_id, cls_id, sep_id = (token_id(tokenizer, token) for token in ("[PAD]", "[CLS]", "[SEP]"))
    rows = []
    for first, second in pairs:
        tail = None if second is None else tokenizer.encode(second, add_special_tokens=False).ids
        rows.append(join_pair(tokenizer.encode(first, add_special_tokens=False).ids, tail, cls_id, sep_id, max_length))
    lengths = torch.tensor([len(ids) for ids, _ in rows])
    size = int(lengths.max())
    ids = torch.tensor([ids + [pad_id] * (size - len(ids)) for ids, _ in rows])
    segments = torch.tensor([seg + [0] * (size - len(seg)) for _, seg in rows])
    return ids, torch.arange(size) < lengths[:, None], segments
