"""Assignment 10: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional as F

from encoder.bert import Embeddings, MLMHead, Pooler
from encoder.checks import check_ids
from encoder.feedforward import ACTIVATIONS
from encoder.pretraining import IGNORE

# --- Embeddings ----------------------------------------------------------------------------------------------------


class Embeddings__segment_forgotten(Embeddings):
    """The segment never enters your sum, so the model cannot tell the first text from the second. Add `self.segment(segments)`."""

    def forward(self, ids, segments=None, positions=None):
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.dropout(self.norm(self.token(ids) + self.position(positions)))


class Embeddings__position_forgotten(Embeddings):
    """The same word gets the same vector wherever it stands: the position is missing from your sum, and attention alone has no order."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        return self.dropout(self.norm(self.token(ids) + self.segment(segments)))


class Embeddings__no_norm(Embeddings):
    """You return the bare sum of the three vectors. BERT normalises it before the first layer reads it: put `self.norm` around the sum."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.dropout(self.token(ids) + self.segment(segments) + self.position(positions))


class Embeddings__norm_of_words_only(Embeddings):
    """You normalise the word's vector and add segment and position afterwards. All three are added first, and the sum is normalised."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.dropout(self.norm(self.token(ids)) + self.segment(segments) + self.position(positions))


class Embeddings__positions_from_one(Embeddings):
    """Your positions start at 1. In BERT the first token, [CLS], stands at position 0 (it is RoBERTa that starts later)."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(1, ids.size(1) + 1, device=ids.device) if positions is None else positions
        return self.dropout(self.norm(self.token(ids) + self.segment(segments) + self.position(positions)))


class Embeddings__given_positions_ignored(Embeddings):
    """Positions that the caller passes have no effect: you always count 0, 1, 2 … yourself. Count only when `positions` is None."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        x = self.token(ids) + self.segment(segments) + self.position(torch.arange(ids.size(1), device=ids.device))
        return self.dropout(self.norm(x))


class Embeddings__default_segment_one(Embeddings):
    """Without segments you put every token into segment 1. A single text is the first text: its segment is 0."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.ones_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.dropout(self.norm(self.token(ids) + self.segment(segments) + self.position(positions)))


class Embeddings__words_times_root(Embeddings):
    """You multiply the word's vector by √D, as the first Transformer did. BERT adds the three vectors as they are and lets the norm set the scale."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        x = self.token(ids) * math.sqrt(self.token.embedding_dim) + self.segment(segments) + self.position(positions)
        return self.dropout(self.norm(x))


class Embeddings__dropout_before_norm(Embeddings):
    """Your dropout comes before the norm, so no output is exactly 0 in training and the norm rescales what is left. Dropout is the last step."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.norm(self.dropout(self.token(ids) + self.segment(segments) + self.position(positions)))


class Embeddings__no_dropout(Embeddings):
    """Nothing is ever dropped in training: `self.dropout` is not called. It costs nothing in evaluation, where it passes everything through."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.norm(self.token(ids) + self.segment(segments) + self.position(positions))


class Embeddings__multiplied(Embeddings):
    """You multiply the three vectors. Their sum is what the layers expect, and a product would vanish as soon as one of them is near 0."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.dropout(self.norm(self.token(ids) * self.segment(segments) * self.position(positions)))


class Embeddings__padding_is_zero(Embeddings):
    """You make the vector of id 0 zero. The embeddings know nothing of padding: the attention mask keeps it from being read."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        words = self.token(ids) * (ids != 0)[..., None]
        return self.dropout(self.norm(words + self.segment(segments) + self.position(positions)))


class Embeddings__three_norms(Embeddings):
    """You normalise each of the three vectors and add them. They are added first, and the sum is normalised once."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        return self.dropout(
            self.norm(self.token(ids)) + self.norm(self.segment(segments)) + self.norm(self.position(positions))
        )


class Embeddings__default_segment_missing(Embeddings):
    """Without segments you add no segment vector at all. A single text is segment 0, and segment 0 has a vector, too."""

    def forward(self, ids, segments=None, positions=None):
        positions = torch.arange(ids.size(1), device=ids.device) if positions is None else positions
        x = self.token(ids) + self.position(positions)
        if segments is not None:
            x = x + self.segment(segments)
        return self.dropout(self.norm(x))


class Embeddings__positions_down_the_batch(Embeddings):
    """Your positions number the texts of the batch, not the tokens of a text: `ids.size(1)` says how many tokens there are."""

    def forward(self, ids, segments=None, positions=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = torch.arange(ids.size(0), device=ids.device)[:, None] if positions is None else positions
        return self.dropout(self.norm(self.token(ids) + self.segment(segments) + self.position(positions)))


class Embeddings__right__lookup_by_index(Embeddings):
    def forward(self, ids, segments=None, positions=None):
        if segments is None:
            segments = ids * 0
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        x = self.token.weight[ids] + self.segment.weight[segments] + self.position.weight[positions]
        return self.dropout(self.norm(x))


class Embeddings__right__stack_and_sum(Embeddings):
    def forward(self, ids, segments=None, positions=None):
        segments = ids.new_zeros(ids.shape) if segments is None else segments
        positions = ids.new_ones(ids.shape).cumsum(1) - 1 if positions is None else positions.expand(ids.shape)
        three = torch.stack([self.token(ids), self.segment(segments), self.position(positions)])
        return self.dropout(self.norm(three.sum(0)))


class Embeddings__right__first_rows_of_the_table(Embeddings):
    def forward(self, ids, segments=None, positions=None):
        check_ids(ids, self.token.num_embeddings, "token")
        x = self.token(ids)
        x = x + (self.segment.weight[0] if segments is None else self.segment(segments))
        x = x + (self.position.weight[: ids.size(1)] if positions is None else self.position(positions))
        return self.dropout(F.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias, 1e-12))


# --- mask_tokens ---------------------------------------------------------------------------------------------------


def mask_tokens__always_mask(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Every chosen token of yours is shown as [MASK]. In use there are no masks to read: 10% are shown as another word and 10% as they are."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    return torch.where(chosen, mask_id, ids), ids.masked_fill(~chosen, IGNORE)


def mask_tokens__none_kept(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Of the chosen, 80% are [MASK] and all the rest another word; none is shown as it is. Half of the rest, 10% of the chosen, must be left alone."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.8), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__none_replaced(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """No chosen token of yours is shown as another word: 80% are [MASK] and 20% stay. Without wrong words the model learns to trust every word that it sees."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    return torch.where(chosen & (fate < 0.8), mask_id, ids), ids.masked_fill(~chosen, IGNORE)


def mask_tokens__labels_everywhere(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Every token has a label, so the loss also counts words that stand in plain sight. Where nothing was chosen the label is IGNORE."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.clone()


def mask_tokens__labels_only_at_masks(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Only places shown as [MASK] have a label. The chosen words that were replaced or kept must be named too, or the model never doubts a word it sees."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(inputs != mask_id, IGNORE)


def mask_tokens__labels_where_changed(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You label the places where input and original differ, so the 10% that were chosen and left as they are get no label. Label what was chosen."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(inputs == ids, IGNORE)


def mask_tokens__labels_of_what_is_shown(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Your label is what is shown, [MASK] itself most of the time, not the word that was there. The label is the original id."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, inputs.masked_fill(~chosen, IGNORE)


def mask_tokens__padding_chosen_too(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You choose among all tokens, padding, [CLS] and [SEP] included. `special_ids` are never chosen: exclude them before you hide anything."""
    chosen = torch.rand(ids.shape, device=ids.device) < probability
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__only_padding_spared(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Only the first of `special_ids` is spared, so [CLS] and [SEP] get hidden. Compare each token with all of them."""
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & (ids != special_ids[0])
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__tenth_of_the_rest(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """After the 80% you replace a tenth of what is left, 2% of the chosen. Ten of the remaining twenty percent are half of them."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    masked = chosen & (torch.rand(ids.shape, device=ids.device) < 0.8)
    replaced = chosen & ~masked & (torch.rand(ids.shape, device=ids.device) < 0.1)
    inputs = torch.where(masked, mask_id, ids)
    inputs = torch.where(replaced, torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__same_places_in_every_text(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You draw the places once and use them for every text of the batch. Each token of each text needs a draw of its own, of shape (B, T)."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape[-1:], device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__one_random_word(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """All replaced tokens became the same word: you drew one random id for the whole batch. Draw one for every token."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, (), device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__ignored_with_zero(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Places that were not chosen have the label 0, which is the id of a real token. The label that no loss counts is IGNORE, −100."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < probability) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, 0)


def mask_tokens__probability_ignored(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You always choose 15%, whatever `probability` says. Compare the draw with the argument."""
    special = (ids[..., None] == torch.tensor(special_ids, device=ids.device)).any(-1)
    chosen = (torch.rand(ids.shape, device=ids.device) < 0.15) & ~special
    fate = torch.rand(ids.shape, device=ids.device)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape, device=ids.device), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__never_special_replacements(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Your replacements leave the special tokens out. They are drawn from the whole vocabulary, 0 … V − 1, whatever stands there."""
    special = torch.isin(ids, torch.tensor(special_ids))
    words = torch.tensor([i for i in range(vocab_size) if i not in set(special_ids)])
    chosen = (torch.rand(ids.shape) < probability) & ~special
    fate = torch.rand(ids.shape)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), words[torch.randint(len(words), ids.shape)], inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__replaced_from_the_batch(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You replace with words that stand elsewhere in the batch. They are drawn from the whole vocabulary, 0 … V − 1."""
    special = torch.isin(ids, torch.tensor(special_ids))
    chosen = (torch.rand(ids.shape) < probability) & ~special
    fate = torch.rand(ids.shape)
    shuffled = ids.flatten()[torch.randperm(ids.numel())].view_as(ids)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), shuffled, inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__last_word_never_drawn(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """Your random words never include the last one: the upper end of torch.randint is left out already, so it is V, not V − 1."""
    special = torch.isin(ids, torch.tensor(special_ids))
    chosen = (torch.rand(ids.shape) < probability) & ~special
    fate = torch.rand(ids.shape)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(0, vocab_size - 1, ids.shape), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__fixed_number_a_text(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You choose the same number of tokens in every text. Each token is chosen with `probability`, independently of all others, so the number varies."""
    special = torch.isin(ids, torch.tensor(special_ids))
    draw = torch.rand(ids.shape).masked_fill(special, 2.0)
    count = ((~special).sum(1, keepdim=True) * probability).round()
    chosen = draw.argsort(1).argsort(1) < count
    fate = torch.rand(ids.shape)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__one_fate_a_text(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """All chosen tokens of a text meet the same fate. Draw it for every token."""
    special = torch.isin(ids, torch.tensor(special_ids))
    chosen = (torch.rand(ids.shape) < probability) & ~special
    fate = torch.rand(len(ids), 1)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__overlapping_fates(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You draw once for [MASK] and once more for another word, so that some masks are overwritten. The three fates exclude each other: one draw decides among them."""
    special = torch.isin(ids, torch.tensor(special_ids))
    chosen = (torch.rand(ids.shape) < probability) & ~special
    inputs = torch.where(chosen & (torch.rand(ids.shape) < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (torch.rand(ids.shape) < 0.1), torch.randint(vocab_size, ids.shape), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__seeded(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You seed the generator inside, so that every call hides the same places. Draw anew each time; who wants the same masks twice passes a `generator`."""
    torch.manual_seed(0)
    special = torch.isin(ids, torch.tensor(special_ids))
    chosen = (torch.rand(ids.shape) < probability) & ~special
    fate = torch.rand(ids.shape)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__neighbours_hidden_together(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    """You hide pairs of neighbours. Each token is chosen independently of all others."""
    special = torch.isin(ids, torch.tensor(special_ids))
    draw = torch.rand(len(ids), (ids.size(1) + 1) // 2).repeat_interleave(2, 1)[:, : ids.size(1)]
    chosen = (draw < probability) & ~special
    fate = torch.rand(ids.shape)
    inputs = torch.where(chosen & (fate < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (fate >= 0.9), torch.randint(vocab_size, ids.shape), inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def mask_tokens__right__loops(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    special, inputs, labels = set(special_ids), [], []
    draws = torch.rand(ids.numel(), 2, generator=generator).tolist()
    words = torch.randint(vocab_size, (ids.numel(),), generator=generator).tolist()
    for token, (choice, fate), word in zip(ids.flatten().tolist(), draws, words, strict=True):
        if token in special or choice >= probability:
            inputs.append(token)
            labels.append(IGNORE)
        else:
            inputs.append(mask_id if fate < 0.8 else token if fate < 0.9 else word)
            labels.append(token)
    return torch.tensor(inputs).view(ids.shape), torch.tensor(labels).view(ids.shape)


def mask_tokens__right__numpy(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    tokens = ids.numpy()
    chosen = (np.random.rand(*tokens.shape) < probability) & ~np.isin(tokens, special_ids)
    fate = np.random.choice(3, size=tokens.shape, p=[0.8, 0.1, 0.1])
    words = np.random.randint(0, vocab_size, tokens.shape)
    inputs = np.where(chosen, np.choose(fate, [np.full_like(tokens, mask_id), words, tokens]), tokens)
    return torch.from_numpy(inputs), torch.from_numpy(np.where(chosen, tokens, IGNORE))


def mask_tokens__right__bernoulli_in_place(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    inputs, labels = ids.clone(), ids.clone()
    rates = torch.full(ids.shape, probability, device=ids.device)
    rates[torch.isin(ids, torch.tensor(special_ids, device=ids.device))] = 0.0
    chosen = torch.bernoulli(rates).bool()
    labels[~chosen] = IGNORE
    masked = torch.bernoulli(torch.full(ids.shape, 0.8, device=ids.device)).bool() & chosen
    inputs[masked] = mask_id
    replaced = torch.bernoulli(torch.full(ids.shape, 0.5, device=ids.device)).bool() & chosen & ~masked
    inputs[replaced] = torch.randint(vocab_size, (int(replaced.sum()),), device=ids.device)
    return inputs, labels


def mask_tokens__right__one_draw_cut_in_three(ids, mask_id, vocab_size, special_ids, probability=0.15, generator=None):
    ordinary = ~torch.isin(ids, torch.tensor(special_ids))
    r = torch.rand(ids.shape, generator=generator) / max(probability, 1e-12)
    inputs = ids.clone()
    inputs[ordinary & (r < 0.8)] = mask_id
    change = ordinary & (r >= 0.8) & (r < 0.9)
    inputs[change] = torch.randint(0, vocab_size, (int(change.sum()),), generator=generator)
    return inputs, torch.where(ordinary & (r < 1), ids, IGNORE)


# --- MLMHead -------------------------------------------------------------------------------------------------------


class MLMHead__no_bias(MLMHead):
    """The bias of each word is missing. It lets common words start ahead of rare ones whatever the context: add `self.bias`."""

    def forward(self, hidden, table):
        return F.linear(self.norm(ACTIVATIONS[self.activation](self.dense(hidden))), table)


class MLMHead__state_straight_to_the_table(MLMHead):
    """You compare the state with the table directly. BERT first sends it through the dense layer, the activation and the norm."""

    def forward(self, hidden, table):
        width = table.size(-1)
        return F.linear(F.pad(hidden, (0, max(0, width - hidden.size(-1))))[..., :width], table, self.bias)


class MLMHead__no_activation(MLMHead):
    """There is no activation between dense layer and norm. Without it the dense layer is one more rotation before a product."""

    def forward(self, hidden, table):
        return F.linear(self.norm(self.dense(hidden)), table, self.bias)


class MLMHead__no_norm(MLMHead):
    """The norm is missing, so the scale of the scores follows the length of the state. Put `self.norm` around the activation."""

    def forward(self, hidden, table):
        return F.linear(ACTIVATIONS[self.activation](self.dense(hidden)), table, self.bias)


class MLMHead__norm_before_activation(MLMHead):
    """You normalise before the activation. In BERT's head the order is dense, activation, norm."""

    def forward(self, hidden, table):
        return F.linear(ACTIVATIONS[self.activation](self.norm(self.dense(hidden))), table, self.bias)


class MLMHead__always_relu(MLMHead):
    """You use ReLU whatever was asked for. `ACTIVATIONS[self.activation]` is the function, and its default is GELU."""

    def forward(self, hidden, table):
        return F.linear(self.norm(F.relu(self.dense(hidden))), table, self.bias)


class MLMHead__approximate_gelu(MLMHead):
    """Your GELU is the tanh approximation, off in the third digit. The name "gelu" stands for the exact one: take it from ACTIVATIONS."""

    def forward(self, hidden, table):
        return F.linear(self.norm(F.gelu(self.dense(hidden), approximate="tanh")), table, self.bias)


class MLMHead__probabilities(MLMHead):
    """You return probabilities. The loss applies the softmax itself, so it would be applied twice: return the scores."""

    def forward(self, hidden, table):
        hidden = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return F.linear(hidden, table, self.bias).softmax(-1)


class MLMHead__log_probabilities(MLMHead):
    """You return log-probabilities. Return the scores as they are: cross-entropy takes the log-softmax itself, and here one word's score moves all others."""

    def forward(self, hidden, table):
        hidden = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return F.linear(hidden, table, self.bias).log_softmax(-1)


class MLMHead__divided_by_root(MLMHead):
    """Your scores are divided by √D as in attention. Here the norm has set the scale already; the product is taken as it is."""

    def forward(self, hidden, table):
        hidden = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return F.linear(hidden, table / math.sqrt(table.size(-1)), self.bias)


class MLMHead__cosine(MLMHead):
    """You divide each word's vector by its length, a cosine. The plain product is meant: long vectors may speak louder."""

    def forward(self, hidden, table):
        hidden = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return F.linear(hidden, F.normalize(table, dim=-1), self.bias)


class MLMHead__table_detached(MLMHead):
    """You detach the table: the scores are right, but the words never learn from them. One copy, trained from both ends."""

    def forward(self, hidden, table):
        hidden = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return F.linear(hidden, table.detach(), self.bias)


class MLMHead__norm_first(MLMHead):
    """You normalise the state before the dense layer. The order is dense, activation, norm."""

    def forward(self, hidden, table):
        hidden = F.layer_norm(hidden, hidden.shape[-1:])
        return F.linear(ACTIVATIONS[self.activation](self.dense(hidden)), table, self.bias)


class MLMHead__best_words(MLMHead):
    """You return the best word. The loss needs the scores of all of them."""

    def forward(self, hidden, table):
        return super().forward(hidden, table).argmax(-1)


class MLMHead__right__matmul_and_own_norm(MLMHead):
    def forward(self, hidden, table):
        x = ACTIVATIONS[self.activation](hidden @ self.dense.weight.T + self.dense.bias)
        x = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + self.norm.eps)
        return (x * self.norm.weight + self.norm.bias) @ table.T + self.bias


class MLMHead__right__einsum(MLMHead):
    def forward(self, hidden, table):
        x = torch.einsum("...i,oi->...o", hidden, self.dense.weight) + self.dense.bias
        x = F.layer_norm(
            ACTIVATIONS[self.activation](x), (x.size(-1),), self.norm.weight, self.norm.bias, self.norm.eps
        )
        return torch.einsum("...d,vd->...v", x, table) + self.bias


class MLMHead__right__word_by_word(MLMHead):
    def forward(self, hidden, table):
        x = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return torch.stack([(x * row).sum(-1) for row in table], -1) + self.bias


# --- Pooler --------------------------------------------------------------------------------------------------------


class Pooler__mean_of_tokens(Pooler):
    """You average the states of all tokens (padding too, in a batch). BERT asks the first token alone: `hidden[:, 0]`."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden.mean(1)))


class Pooler__mean_of_answers(Pooler):
    """You pool every token and average the results. Only the state of the first token goes through the dense layer."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden)).mean(1)


class Pooler__last_token(Pooler):
    """You read the last token, as one would with a recurrent encoder. [CLS] stands at the front: `hidden[:, 0]`."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[:, -1]))


class Pooler__maximum(Pooler):
    """You take the largest value of each feature over the tokens. BERT asks the first token alone: `hidden[:, 0]`."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden.amax(1)))


class Pooler__no_tanh(Pooler):
    """The tanh is missing: your values leave the range from −1 to 1. Put it around the dense layer."""

    def forward(self, hidden):
        return self.dense(hidden[:, 0])


class Pooler__tanh_first(Pooler):
    """You apply tanh to the state and the dense layer afterwards. The order is dense layer, then tanh."""

    def forward(self, hidden):
        return self.dense(torch.tanh(hidden[:, 0]))


class Pooler__sigmoid(Pooler):
    """You use a sigmoid, so no value is ever negative. The pooler ends with a tanh; the sigmoid belongs to a yes-or-no answer."""

    def forward(self, hidden):
        return torch.sigmoid(self.dense(hidden[:, 0]))


class Pooler__no_dense(Pooler):
    """The dense layer is never used, so its weights cannot learn. The pooler is tanh(W x + b)."""

    def forward(self, hidden):
        return torch.tanh(hidden[:, 0])


class Pooler__every_token(Pooler):
    """You return one vector a token. The pooler gives one vector a text, (B, D): pick the first token before or after the dense layer."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden))


class Pooler__relu(Pooler):
    """You use ReLU, which cuts all negative values off and has no upper bound. The pooler ends with a tanh."""

    def forward(self, hidden):
        return torch.relu(self.dense(hidden[:, 0]))


class Pooler__first_text(Pooler):
    """You take the first text of the batch, `hidden[0]`. The first axis is the batch: the first *token* is hidden[:, 0]."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[0]))


class Pooler__second_token(Pooler):
    """You read the second token. [CLS] is the first, and counting starts at 0."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[:, min(1, hidden.size(1) - 1)]))


class Pooler__axis_kept(Pooler):
    """You kept the axis of tokens, (B, 1, D). One vector a text is (B, D): index with 0, not with :1."""

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[:, :1]))


class Pooler__right__select(Pooler):
    def forward(self, hidden):
        return self.dense(hidden.select(1, 0)).tanh()


class Pooler__right__matrix_by_hand(Pooler):
    def forward(self, hidden):
        x = torch.einsum("oi,bi->bo", self.dense.weight, hidden[:, :1].squeeze(1)) + self.dense.bias
        return (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))


class Pooler__right__all_then_first(Pooler):
    def forward(self, hidden):
        return torch.tanh(F.linear(hidden, self.dense.weight, self.dense.bias))[:, 0]


# --- make_nsp_pairs ------------------------------------------------------------------------------------------------


def make_nsp_pairs__labels_turned_around(documents, generator=None):
    """Your labels are the wrong way round: 0 says that the second sentence follows, 1 that it does not."""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
                other = documents[(number + step) % len(documents)]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, 1 - label))
    return pairs


def make_nsp_pairs__from_its_own_document(documents, generator=None):
    """Your random sentence comes from the same document. It may even be the true next one: draw from another document."""
    pairs = []
    for sentences in documents:
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                second = sentences[int(torch.randint(len(sentences), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__from_any_document(documents, generator=None):
    """You draw among all documents, so that now and then it is the sentence's own, and the label lies. Leave its own out."""
    pairs = []
    for sentences in documents:
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                other = documents[int(torch.randint(len(documents), (), generator=generator))]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__every_sentence_once(documents, generator=None):
    """You cut a text into couples, 1–2, 3–4, … Every two neighbours make a pair: 1–2, 2–3, 3–4, …"""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in zip(sentences[::2], sentences[1::2], strict=False):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
                other = documents[(number + step) % len(documents)]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__always_the_next(documents, generator=None):
    """All of your pairs follow each other. A model that always says yes would be perfect: half of the pairs need a foreign second sentence."""
    return [(first, second, 0) for sentences in documents for first, second in pairwise(sentences)]


def make_nsp_pairs__by_turns(documents, generator=None):
    """Your labels take turns, 0, 1, 0, 1, … and are the same in every call. Throw a coin for every pair."""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            label = len(pairs) % 2
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
                other = documents[(number + step) % len(documents)]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__across_the_border(documents, generator=None):
    """You join all texts and pair neighbours across their borders: the last sentence of one text is not followed by the first of the next."""
    flat = [(number, sentence) for number, sentences in enumerate(documents) for sentence in sentences]
    pairs = []
    for (number, first), (_, second) in pairwise(flat):
        label = int(torch.randint(2, (), generator=generator))
        if label:
            step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
            other = documents[(number + step) % len(documents)]
            second = other[int(torch.randint(len(other), (), generator=generator))]
        pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__one_coin_a_document(documents, generator=None):
    """You throw one coin for a whole document, so that all of its pairs have the same label. Throw it for every pair."""
    pairs = []
    for number, sentences in enumerate(documents):
        label = int(torch.randint(2, (), generator=generator))
        for first, second in pairwise(sentences):
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
                other = documents[(number + step) % len(documents)]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__first_replaced(documents, generator=None):
    """You replace the first sentence of a pair. The first stays; the second is what may come from elsewhere."""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
                other = documents[(number + step) % len(documents)]
                first = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__always_the_neighbouring_document(documents, generator=None):
    """Your foreign sentences all come from the next document in the list. Any other document may be drawn."""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                other = documents[(number + 1) % len(documents)]
                second = other[int(torch.randint(len(other), (), generator=generator))]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__first_sentence_of_the_other(documents, generator=None):
    """You always take the first sentence of the other document. A model would learn to know beginnings: any sentence may come."""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            label = int(torch.randint(2, (), generator=generator))
            if label:
                step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
                second = documents[(number + step) % len(documents)][0]
            pairs.append((first, second, label))
    return pairs


def make_nsp_pairs__both_kinds_for_each(documents, generator=None):
    """You make two pairs of each place, a true and a false one. There is one pair for every two neighbours, and a coin decides its kind."""
    pairs = []
    for number, sentences in enumerate(documents):
        for first, second in pairwise(sentences):
            step = 1 + int(torch.randint(len(documents) - 1, (), generator=generator))
            other = documents[(number + step) % len(documents)]
            pairs.append((first, second, 0))
            pairs.append((first, other[int(torch.randint(len(other), (), generator=generator))], 1))
    return pairs


def make_nsp_pairs__right__python_random(documents, generator=None):
    import random

    pairs = []
    for sentences in documents:
        others = [other for other in documents if other is not sentences]
        for i in range(len(sentences) - 1):
            if random.random() < 0.5:
                pairs.append((sentences[i], sentences[i + 1], 0))
            else:
                pairs.append((sentences[i], random.choice(random.choice(others)), 1))
    return pairs


def make_nsp_pairs__right__pool_of_foreign_sentences(documents, generator=None):
    pairs = []
    for number, sentences in enumerate(documents):
        pool = [s for n, other in enumerate(documents) for s in other if n != number]
        foreign = torch.rand(len(sentences), generator=generator) < 0.5
        places = torch.randint(len(pool), (len(sentences),), generator=generator).tolist()
        for i, (first, second) in enumerate(zip(sentences[:-1], sentences[1:], strict=True)):
            pairs.append([first, pool[places[i]], 1] if foreign[i] else [first, second, 0])
    return pairs


def make_nsp_pairs__right__drawn_until_foreign(documents, generator=None):
    def stranger(own):
        while True:
            number = int(np.random.randint(len(documents)))
            if number != own:
                return documents[number][int(np.random.randint(len(documents[number])))]

    return [
        (first, stranger(own), 1) if np.random.rand() >= 0.5 else (first, second, 0)
        for own, sentences in enumerate(documents)
        for first, second in pairwise(sentences)
    ]
