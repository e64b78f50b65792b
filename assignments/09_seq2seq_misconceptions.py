"""Wrong versions of assignment 09, each with what a tutor would say, and right ones in other styles."""

import torch
from torch.nn import functional as F

from encoder.masks import causal_mask
from encoder.seq2seq import DecoderLayer

# --- DecoderLayer --------------------------------------------------------------------------------------------------


class DecoderLayer__cross_attention_reads_the_target(DecoderLayer):
    """Your cross-attention takes its keys and values from the target: the source is never read. Hand it the memory."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.cross_attention(self.norm2(x), mask))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, mask)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class DecoderLayer__no_causal_mask(DecoderLayer):
    """The mask never reaches your self-attention: each target token reads those that come after it, the one it must predict among them."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, None, memory_mask)


class DecoderLayer__padding_of_the_source_read(DecoderLayer):
    """The memory mask never reaches your cross-attention: the padding of short sources is read."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, None)


class DecoderLayer__masks_swapped(DecoderLayer):
    """You give each attention the mask of the other: (T, T) belongs to the self-attention, (B, 1, 1, S) to the cross-attention."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, memory_mask, mask)


class DecoderLayer__queries_from_the_memory(DecoderLayer):
    """Your cross-attention asks from the source and reads the target: its result is as long as the source. The target asks, the source is read."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        x = x + self.dropout(self.cross_attention(memory, None, self.norm2(x)))
        return x + self.dropout(self.feedforward(self.norm3(x)))


class DecoderLayer__pre_and_post_swapped(DecoderLayer):
    """You have pre-LN and post-LN the wrong way round: with norm_first each sublayer reads a normalised input and the sum is left alone."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if not self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory_mask, memory)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class DecoderLayer__always_pre_norm(DecoderLayer):
    """You never look at norm_first: with norm_first=False the sum has to be normalised after each sublayer."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        x = x + self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory))
        return x + self.dropout(self.feedforward(self.norm3(x)))


class DecoderLayer__cross_attention_without_residual(DecoderLayer):
    """Your cross-attention replaces the target's vectors by what it read in the source. It adds to them: each sublayer stands in a residual."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm2(self.dropout(self.cross_attention(x, memory_mask, memory)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class DecoderLayer__cross_before_self(DecoderLayer):
    """You read the source before the target has read itself. The order is self-attention, cross-attention, feed-forward."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.dropout(self.cross_attention(self.norm1(x), memory_mask, memory))
            x = x + self.dropout(self.attention(self.norm2(x), mask))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.cross_attention(x, memory_mask, memory)))
        x = self.norm2(x + self.dropout(self.attention(x, mask)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class DecoderLayer__memory_normalised(DecoderLayer):
    """You normalise the memory as well. The encoder has done that, with a norm of its own: the memory is used as it comes."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if not self.norm_first:
            return super().forward(x, memory, mask, memory_mask)
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        x = x + self.dropout(self.cross_attention(self.norm2(x), memory_mask, self.norm2(memory)))
        return x + self.dropout(self.feedforward(self.norm3(x)))


class DecoderLayer__one_attention_for_both(DecoderLayer):
    """You use the self-attention's weights for the source, too. `self.cross_attention` has weights of its own."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.attention(self.norm2(x), memory_mask, memory))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm2(x + self.dropout(self.attention(x, memory_mask, memory)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class DecoderLayer__all_from_the_same_input(DecoderLayer):
    """Your three sublayers all read the layer's input, side by side. Each reads what the one before it has left."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if not self.norm_first:
            return super().forward(x, memory, mask, memory_mask)
        own = self.dropout(self.attention(self.norm1(x), mask))
        read = self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory))
        return x + own + read + self.dropout(self.feedforward(self.norm3(x)))


class DecoderLayer__dropout_forgotten(DecoderLayer):
    """Nothing is dropped in your layer while it trains: dropout falls on what each sublayer adds."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            x = x + self.cross_attention(self.norm2(x), memory_mask, memory)
            return x + self.feedforward(self.norm3(x))
        x = self.norm1(x + self.attention(x, mask))
        x = self.norm2(x + self.cross_attention(x, memory_mask, memory))
        return self.norm3(x + self.feedforward(x))


class DecoderLayer__dropout_only_before(DecoderLayer):
    """Your layer drops nothing when norm_first is False. In both forms dropout falls on what each sublayer adds."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.attention(x, mask))
        x = self.norm2(x + self.cross_attention(x, memory_mask, memory))
        return self.norm3(x + self.feedforward(x))


class DecoderLayer__memory_detached(DecoderLayer):
    """You detach the memory, so that nothing the decoder learns ever reaches the encoder. The two are trained together."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory.detach(), mask, memory_mask)


class DecoderLayer__causal_built_in(DecoderLayer):
    """Your layer makes a causal mask of its own, whatever `mask` says. Use the mask that is given, and none when there is none."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, causal_mask(x.size(1), x.device), memory_mask)


class DecoderLayer__one_norm(DecoderLayer):
    """You use the first norm three times. Each sublayer has a norm of its own: norm1, norm2, norm3."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.cross_attention(self.norm1(x), memory_mask, memory))
            return x + self.dropout(self.feedforward(self.norm1(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        x = self.norm1(x + self.dropout(self.cross_attention(x, memory_mask, memory)))
        return self.norm1(x + self.dropout(self.feedforward(x)))


class DecoderLayer__norm_inside_the_sum(DecoderLayer):
    """With norm_first=False you normalise what the sublayer adds and leave the sum alone. Post-LN normalises the sum: norm(x + sublayer(x))."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            return super().forward(x, memory, mask, memory_mask)
        x = x + self.norm1(self.dropout(self.attention(x, mask)))
        x = x + self.norm2(self.dropout(self.cross_attention(x, memory_mask, memory)))
        return x + self.norm3(self.dropout(self.feedforward(x)))


class DecoderLayer__dropout_on_the_sum(DecoderLayer):
    """Your dropout falls on the whole sum, so that x itself gets holes. It falls on what each sublayer adds; the residual passes untouched."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.norm_first:
            x = self.dropout(x + self.attention(self.norm1(x), mask))
            x = self.dropout(x + self.cross_attention(self.norm2(x), memory_mask, memory))
            return self.dropout(x + self.feedforward(self.norm3(x)))
        x = self.norm1(self.dropout(x + self.attention(x, mask)))
        x = self.norm2(self.dropout(x + self.cross_attention(x, memory_mask, memory)))
        return self.norm3(self.dropout(x + self.feedforward(x)))


class DecoderLayer__memory_joined_to_the_target(DecoderLayer):
    """Your cross-attention reads the target and the memory, joined. Its keys and values come from the memory alone."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        x = x + self.dropout(self.cross_attention(self.norm2(x), None, torch.cat([x, memory], 1)))
        return x + self.dropout(self.feedforward(self.norm3(x)))


class DecoderLayer__right__keywords(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        pre = self.norm_first
        h = self.attention(self.norm1(x) if pre else x, mask=mask)
        x = x + self.dropout(h) if pre else self.norm1(x + self.dropout(h))
        h = self.cross_attention(self.norm2(x) if pre else x, memory=memory, mask=memory_mask)
        x = x + self.dropout(h) if pre else self.norm2(x + self.dropout(h))
        h = self.feedforward(self.norm3(x) if pre else x)
        return x + self.dropout(h) if pre else self.norm3(x + self.dropout(h))


class DecoderLayer__right__loop_over_sublayers(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        steps = [
            (self.norm1, lambda y: self.attention(y, mask)),
            (self.norm2, lambda y: self.cross_attention(y, memory_mask, memory)),
            (self.norm3, self.feedforward),
        ]
        for norm, sublayer in steps:
            x = x + self.dropout(sublayer(norm(x))) if self.norm_first else norm(x + self.dropout(sublayer(x)))
        return x


class DecoderLayer__right__masks_written_out(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        b, t, s = x.size(0), x.size(1), memory.size(1)
        if mask is None:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device)
        if memory_mask is None:
            memory_mask = torch.ones(b, 1, 1, s, dtype=torch.bool, device=x.device)
        memory_mask = memory_mask.expand(b, 1, t, s)
        if self.norm_first:
            x = torch.add(x, self.dropout(self.attention(self.norm1(x), mask)))
            x = torch.add(x, self.dropout(self.cross_attention(self.norm2(x), memory_mask, memory)))
            return torch.add(x, self.dropout(self.feedforward(self.norm3(x))))
        x = self.norm1(self.dropout(self.attention(x, mask)) + x)
        x = self.norm2(self.dropout(self.cross_attention(x, memory_mask, memory)) + x)
        return self.norm3(self.dropout(self.feedforward(x)) + x)


# --- shift_right ---------------------------------------------------------------------------------------------------


def shift_right__to_the_left(target, bos_id):
    """You shift to the left: position t holds the token after t, so the decoder is shown the future."""
    return torch.cat([target[:, 1:], torch.full_like(target[:, :1], bos_id)], 1)


def shift_right__one_longer(target, bos_id):
    """You put <bos> in front but drop nothing at the end: the input is one longer than what has to be predicted."""
    return torch.cat([torch.full_like(target[:, :1], bos_id), target], 1)


def shift_right__bos_missing(target, bos_id):
    """You only drop the last token. Without <bos> in front, position 0 holds the token that it has to predict."""
    return target[:, :-1]


def shift_right__rolled(target, bos_id):
    """The last token comes out in front, where <bos> belongs: a roll wraps around."""
    return target.roll(1, 1)


def shift_right__first_token_overwritten(target, bos_id):
    """You write <bos> over the first token and shift nothing: every later position still holds the token that it must predict."""
    return torch.cat([torch.full_like(target[:, :1], bos_id), target[:, 1:]], 1)


def shift_right__not_shifted(target, bos_id):
    """You hand the target over as it is: the decoder only has to copy what it sees, and learns nothing else."""
    return target


def shift_right__over_the_batch(target, bos_id):
    """You shift down the batch: each sentence is given the sentence above it. Shift along the tokens, the second axis."""
    return torch.cat([torch.full_like(target[:1], bos_id), target[:-1]], 0)


def shift_right__zeros_in_front(target, bos_id):
    """You fill the first place with 0, which is padding. It must hold `bos_id`."""
    return F.pad(target, (1, 0))[:, :-1]


def shift_right__by_two(target, bos_id):
    """You shift by two places: position t holds token t − 2, and never sees the one just before it."""
    return torch.cat([torch.full_like(target[:, :2], bos_id), target[:, :-2]], 1)[:, : target.size(1)]


def shift_right__floats(target, bos_id):
    """Your ids have become floats, since the column of <bos> was made as one. Ids stay int64: torch.full_like keeps the type."""
    return torch.cat([torch.full((target.size(0), 1), float(bos_id)), target[:, :-1]], 1)


def shift_right__end_taken_away(target, bos_id):
    """You take the last real token away, so that padding moves up. Every row loses its last *place*; nothing else changes."""
    return torch.tensor(
        [[bos_id, *[t for t in row if t][:-1], *[0] * len([t for t in row if not t])] for row in target.tolist()]
    )


def shift_right__bos_of_one(target, bos_id):
    """You always put a 1 in front. Which id is <bos> is an argument."""
    return torch.cat([torch.ones_like(target[:, :1]), target[:, :-1]], 1)


def shift_right__right__pad(target, bos_id):
    return F.pad(target, (1, -1), value=bos_id)


def shift_right__right__roll_and_write(target, bos_id):
    shifted = target.roll(1, dims=1)
    shifted[:, 0] = bos_id
    return shifted


def shift_right__right__lists(target, bos_id):
    return torch.tensor([[bos_id, *row[:-1]] for row in target.tolist()], dtype=target.dtype, device=target.device)


# --- seq2seq_loss --------------------------------------------------------------------------------------------------


def seq2seq_loss__padding_counted(logits, target, pad_id):
    """You count padding as if it had to be predicted. It is easy to predict, so that the loss looks better than it is."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def seq2seq_loss__sum(logits, target, pad_id):
    """You add up the losses of all tokens. The mean does not depend on how many tokens the batch happens to have."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")


def seq2seq_loss__divided_by_all_positions(logits, target, pad_id):
    """Padding adds nothing to your sum but is still counted when you divide: the more padding, the smaller your loss."""
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")
    return total / target.numel()


def seq2seq_loss__mean_of_sentence_means(logits, target, pad_id):
    """You average within each sentence first. A token of a short sentence then weighs more than one of a long sentence; all real tokens count the same."""
    losses = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=pad_id, reduction="none")
    return (losses.sum(1) / (target != pad_id).sum(1).clamp(min=1)).mean()


def seq2seq_loss__softmax_before_cross_entropy(logits, target, pad_id):
    """You apply a softmax before the cross-entropy, which has one inside. It takes logits as they are."""
    p = logits.softmax(-1)
    total = F.cross_entropy(p.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")
    return total / (target != pad_id).sum().clamp(min=1)


def seq2seq_loss__shifted_again(logits, target, pad_id):
    """You shift once more inside the loss: logits at t are compared with token t + 1. `shift_right` has done the shift already."""
    logits, target = logits[:, :-1], target[:, 1:]
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")
    return total / (target != pad_id).sum().clamp(min=1)


def seq2seq_loss__sign_missing(logits, target, pad_id):
    """Your loss is negative and falls when the model gets worse: the minus in −log p is missing."""
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")
    return -total / (target != pad_id).sum().clamp(min=1)


def seq2seq_loss__nan_on_empty(logits, target, pad_id):
    """With nothing but padding you divide 0 by 0. Such a batch costs nothing: its loss is 0."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id)


def seq2seq_loss__probability_instead_of_logarithm(logits, target, pad_id):
    """You average 1 − p. The loss is −log p: a probability near 0 must cost much more than one of a half."""
    p = logits.softmax(-1).gather(-1, target[..., None])[..., 0]
    real = target != pad_id
    return ((1 - p) * real).sum() / real.sum().clamp(min=1)


def seq2seq_loss__zero_taken_for_padding(logits, target, pad_id):
    """You leave out the id 0 whatever `pad_id` says. Which id is padding is an argument."""
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0, reduction="sum")
    return total / (target != 0).sum().clamp(min=1)


def seq2seq_loss__number(logits, target, pad_id):
    """You return a plain number. Nothing can be learnt from it: the loss must stay a tensor, so that gradients flow back."""
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=pad_id, reduction="sum")
    return (total / (target != pad_id).sum().clamp(min=1)).item()


def seq2seq_loss__axes_not_turned(logits, target, pad_id):
    """You reshape the logits to (B, V, T) instead of changing the axes over, so that scores of one token end up at another."""
    B, T, V = logits.shape
    total = F.cross_entropy(logits.reshape(B, V, T), target, ignore_index=pad_id, reduction="sum")
    return total / (target != pad_id).sum().clamp(min=1)


def seq2seq_loss__padding_logits_zeroed(logits, target, pad_id):
    """You set the logits of padding to zero and still count the place: each costs ln V. Leave it out of the sum and of the count."""
    real = target != pad_id
    return F.cross_entropy((logits * real[..., None]).flatten(0, 1), target.flatten())


def seq2seq_loss__right__gather(logits, target, pad_id):
    log_p = logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    real = (target != pad_id).to(logits.dtype)
    return -(log_p * real).sum() / real.sum().clamp(min=1)


def seq2seq_loss__right__select_first(logits, target, pad_id):
    real = target != pad_id
    if not real.any():
        return logits.sum() * 0.0
    return F.cross_entropy(logits[real], target[real])


def seq2seq_loss__right__logsumexp(logits, target, pad_id):
    chosen = (logits * F.one_hot(target, logits.size(-1))).sum(-1)
    losses = (torch.logsumexp(logits, -1) - chosen).masked_fill(target == pad_id, 0.0)
    return losses.sum() / max(1, int((target != pad_id).sum()))


# --- greedy_ids ----------------------------------------------------------------------------------------------------


def greedy_ids__start_included(decode, start, max_length, eos_id=2, pad_id=0):
    """Your answer begins with the start sign. It is needed to begin, but it is not part of what is said."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids


def greedy_ids__never_stops_early(decode, start, max_length, eos_id=2, pad_id=0):
    """You always run to max_length. When all rows have ended there is nothing left to say: stop."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length:
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__stops_at_the_first_end(decode, start, max_length, eos_id=2, pad_id=0):
    """You stop as soon as one row has ended and cut the others off. Go on until all have."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.any():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__talks_on_after_the_end(decode, start, max_length, eos_id=2, pad_id=0):
    """A row that has said its end goes on talking while the others finish. After <eos> it holds padding."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__sees_only_the_last_token(decode, start, max_length, eos_id=2, pad_id=0):
    """You hand the model only the token it said last. It has no memory of its own: give it all ids so far."""
    ids, last, ended = start, start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        last = decode(last)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, last], 1), ended | (last == eos_id)
    return ids[:, 1:]


def greedy_ids__one_token_short(decode, start, max_length, eos_id=2, pad_id=0):
    """You say one token too few: the start sign does not count towards max_length."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) < max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__end_not_written(decode, start, max_length, eos_id=2, pad_id=0):
    """You replace the end sign itself by padding. A row that is over shows <eos>, so that one can tell it from one that was cut."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1)
        ended = ended | (best == eos_id)
        ids = torch.cat([ids, best.masked_fill(ended, pad_id)], 1)
    return ids[:, 1:]


def greedy_ids__first_position(decode, start, max_length, eos_id=2, pad_id=0):
    """You read the logits of position 0, which predict the first token again and again. What comes next is at the last position."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, :1].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__ends_repeated(decode, start, max_length, eos_id=2, pad_id=0):
    """You fill rows that are over with <eos>. It is said once; what follows is padding."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, eos_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__signs_hard_coded(decode, start, max_length, eos_id=2, pad_id=0):
    """You take 2 for the end and 0 for padding whatever the arguments say: use eos_id and pad_id."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, 0)
        ids, ended = torch.cat([ids, best], 1), ended | (best == 2)
    return ids[:, 1:]


def greedy_ids__sampled(decode, start, max_length, eos_id=2, pad_id=0):
    """You draw the next token at random. Greedy means the likeliest one: argmax."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = torch.multinomial(decode(ids)[:, -1].softmax(-1), 1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id)
    return ids[:, 1:]


def greedy_ids__no_end(decode, start, max_length, eos_id=2, pad_id=0):
    """You never look for the end: rows talk on after `eos_id`, up to max_length."""
    ids = start
    for _ in range(max_length):
        ids = torch.cat([ids, decode(ids)[:, -1:].argmax(-1)], 1)
    return ids[:, 1:]


def greedy_ids__padding_after_a_pad(decode, start, max_length, eos_id=2, pad_id=0):
    """A row of yours is over as soon as it says `pad_id`. Only `eos_id` ends it."""
    ids, ended = start, torch.zeros_like(start, dtype=torch.bool)
    while ids.size(1) <= max_length and not ended.all():
        best = decode(ids)[:, -1:].argmax(-1).masked_fill(ended, pad_id)
        ids, ended = torch.cat([ids, best], 1), ended | (best == eos_id) | (best == pad_id)
    return ids[:, 1:]


def greedy_ids__right__for_loop(decode, start, max_length, eos_id=2, pad_id=0):
    said, over = [], [False] * len(start)
    for _ in range(max_length):
        logits = decode(torch.cat([start, *said], 1))
        column = [pad_id if done else int(row[-1].argmax()) for row, done in zip(logits, over)]
        over = [done or token == eos_id for done, token in zip(over, column)]
        said.append(torch.tensor(column, dtype=start.dtype, device=start.device)[:, None])
        if all(over):
            break
    return torch.cat(said, 1)


def greedy_ids__right__cleaned_at_the_end(decode, start, max_length, eos_id=2, pad_id=0):
    ids = start
    for _ in range(max_length):
        ids = torch.cat([ids, decode(ids)[:, -1].argmax(-1, keepdim=True)], 1)
        ends = (ids[:, 1:] == eos_id).cumsum(1)
        ids[:, 1:] = ids[:, 1:].masked_fill((ends - (ids[:, 1:] == eos_id).long()) > 0, pad_id)
        if (ends > 0).any(1).all():
            break
    return ids[:, 1:]


def greedy_ids__right__buffer(decode, start, max_length, eos_id=2, pad_id=0):
    answer = torch.full((start.size(0), max_length), pad_id, dtype=start.dtype, device=start.device)
    running = torch.ones(start.size(0), dtype=torch.bool, device=start.device)
    for t in range(max_length):
        best = decode(torch.cat([start, answer[:, :t]], 1))[:, -1].max(-1).indices
        answer[:, t] = torch.where(running, best, pad_id)
        running &= best != eos_id
        if not running.any():
            return answer[:, : t + 1]
    return answer


# --- accuracies ----------------------------------------------------------------------------------------------------


def accuracies__padding_counted(predicted, target, pad_id=0):
    """You count padding among the tokens. Only real tokens can be right or wrong."""
    real, right = target != pad_id, predicted == target
    return right.double().mean().item(), (right | ~real).all(1).double().mean().item()


def accuracies__sentence_must_match_on_padding(predicted, target, pad_id=0):
    """A sentence of yours is wrong when something stands where the target is padding. Only its real tokens count."""
    real, right = target != pad_id, predicted == target
    return right[real].double().mean().item(), right.all(1).double().mean().item()


def accuracies__swapped(predicted, target, pad_id=0):
    """You return (sentences, tokens). The share of tokens comes first."""
    real, right = target != pad_id, predicted == target
    return (right | ~real).all(1).double().mean().item(), right[real].double().mean().item()


def accuracies__mean_of_sentences(predicted, target, pad_id=0):
    """You average the token accuracies of the sentences. Then a token of a short sentence weighs more: count over the whole batch."""
    real, right = target != pad_id, predicted == target
    tokens = ((right & real).sum(1) / real.sum(1)).double().mean().item()
    return tokens, (right | ~real).all(1).double().mean().item()


def accuracies__one_right_token_is_enough(predicted, target, pad_id=0):
    """A sentence of yours is right as soon as one token is. All of them have to be."""
    real, right = target != pad_id, predicted == target
    return right[real].double().mean().item(), (right & real).any(1).double().mean().item()


def accuracies__mask_from_the_prediction(predicted, target, pad_id=0):
    """You decide by the prediction what is padding: a model that says nothing would never be wrong. The target decides."""
    real, right = predicted != pad_id, predicted == target
    return right[real].double().mean().item(), (right | ~real).all(1).double().mean().item()


def accuracies__power_instead_of_count(predicted, target, pad_id=0):
    """You compute what independent mistakes would give, tokens to the power of the length. Count the sentences: mistakes need not be independent."""
    real, right = target != pad_id, predicted == target
    tokens = right[real].double().mean().item()
    return tokens, tokens ** real.sum(1).double().mean().item()


def accuracies__percent(predicted, target, pad_id=0):
    """You return percent. A share lies between 0 and 1."""
    real, right = target != pad_id, predicted == target
    return 100 * right[real].double().mean().item(), 100 * (right | ~real).all(1).double().mean().item()


def accuracies__counts(predicted, target, pad_id=0):
    """You return how many are right. A share is that number divided by how many there are."""
    real, right = target != pad_id, predicted == target
    return float(right[real].sum()), float((right | ~real).all(1).sum())


def accuracies__zero_taken_for_padding(predicted, target, pad_id=0):
    """You take 0 for padding whatever `pad_id` says."""
    real, right = target != 0, predicted == target
    return right[real].double().mean().item(), (right | ~real).all(1).double().mean().item()


def accuracies__right_padding_in_the_numerator(predicted, target, pad_id=0):
    """Your count of right tokens includes padding, your count of all tokens does not: the share can exceed 1. Count real tokens in both."""
    real = target != pad_id
    right = predicted == target
    return (right.sum() / real.sum()).item(), (right | ~real).all(1).double().mean().item()


def accuracies__padding_spoils_the_sentence(predicted, target, pad_id=0):
    """You count padding as a mistake of the sentence: no sentence shorter than the batch can be right. Padding may not spoil it."""
    real = target != pad_id
    right = (predicted == target) & real
    return (right.sum() / real.sum()).item(), right.all(1).double().mean().item()


def accuracies__most_tokens(predicted, target, pad_id=0):
    """A sentence of yours is right when most of its tokens are. Every one of them has to be."""
    real = target != pad_id
    right = predicted == target
    return right[real].double().mean().item(), float(((right | ~real).double().mean(1) > 0.5).double().mean())


def accuracies__right__loops(predicted, target, pad_id=0):
    rows = []
    for p, y in zip(predicted.tolist(), target.tolist()):
        rows.append([a == b for a, b in zip(p, y) if b != pad_id])
    return sum(map(sum, rows)) / sum(map(len, rows)), sum(map(all, rows)) / len(rows)


def accuracies__right__sums(predicted, target, pad_id=0):
    real = target.ne(pad_id)
    wrong = predicted.ne(target) & real
    return 1 - float(wrong.sum()) / float(real.sum()), float((wrong.sum(1) == 0).double().mean())


def accuracies__right__fill_in(predicted, target, pad_id=0):
    filled = torch.where(target == pad_id, target, predicted)
    kept = target[target != pad_id]
    return float((predicted[target != pad_id] == kept).double().mean()), float(
        (filled == target).all(dim=-1).double().mean()
    )


# --- check_no_peeking ----------------------------------------------------------------------------------------------


def check_no_peeking__looks_only_at_shapes(decode):
    """Your test looks at shapes, and a decoder that peeks has the right ones. Change an id and see what moves."""
    assert decode(torch.randint(0, 9, (2, 5))).shape == (2, 5, 9)


def check_no_peeking__only_the_last_id(decode):
    """You change only the last id and look only at the first position: a decoder that sees one token ahead slips through. Try every place."""
    ids = torch.randint(0, 9, (2, 7))
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % 9
    assert torch.allclose(decode(ids)[:, 0], decode(changed)[:, 0], atol=1e-6)


def check_no_peeking__only_the_future(decode):
    """You test that the future is hidden but not that the past is read: a decoder that reads too little slips through."""
    ids = torch.randint(0, 9, (1, 8))
    before = decode(ids)
    for t in range(1, 8):
        changed = ids.clone()
        changed[:, t] = (ids[:, t] + 1) % 9
        assert torch.allclose(decode(changed)[:, :t], before[:, :t], atol=1e-6)


def check_no_peeking__only_the_past(decode):
    """You test that the past is read but not that the future is hidden, which is the colleague's bug."""
    ids = torch.randint(0, 9, (1, 4))
    changed = ids.clone()
    changed[:, 0] = (ids[:, 0] + 1) % 9
    assert ((decode(changed) - decode(ids)).abs().amax(-1) > 1e-6).all()


def check_no_peeking__changes_in_place(decode):
    """You change the ids in place before the first answer is computed, so that you compare an answer with itself. Work on a clone."""
    ids = torch.randint(0, 9, (2, 3))
    changed = ids
    changed[:, -1] = (ids[:, -1] + 1) % 9
    assert torch.allclose(decode(ids), decode(changed), atol=1e-6)


def check_no_peeking__forbids_the_given_id(decode):
    """Your test rejects a right decoder: position t may read id t, since that is the token before the one to predict."""
    ids = torch.randint(0, 9, (1, 9))
    before = decode(ids)
    for t in range(9):
        changed = ids.clone()
        changed[:, t] = (ids[:, t] + 1) % 9
        assert torch.allclose(decode(changed)[:, : t + 1], before[:, : t + 1], atol=1e-6)


def check_no_peeking__returns_false(decode):
    """Your test returns False instead of raising: nobody looks at what a test returns. Use assert."""
    ids = torch.randint(0, 9, (2, 10))
    changed = ids.clone()
    changed[:, 5] = (ids[:, 5] + 1) % 9
    return bool(torch.allclose(decode(ids)[:, :5], decode(changed)[:, :5], atol=1e-6))


def check_no_peeking__never_calls_it(decode):
    """Your test never calls the function it is given, so it says the same of every decoder."""
    mask = causal_mask(6)
    assert not mask.triu(1).any()


def check_no_peeking__swallows_its_own_assert(decode):
    """Your try … except catches the AssertionError that you raise yourself: nothing gets out."""
    try:
        ids = torch.randint(0, 9, (2, 11))
        changed = ids.clone()
        changed[:, 5] = (ids[:, 5] + 1) % 9
        assert torch.allclose(decode(ids)[:, :5], decode(changed)[:, :5], atol=1e-6)
    except Exception:
        pass


def check_no_peeking__other_rows_not_watched(decode):
    """You change all rows at once, so that you cannot see a sentence being changed by another one. Change one row and watch the rest."""
    ids = torch.randint(0, 9, (3, 6))
    before = decode(ids)
    for t in range(6):
        changed = ids.clone()
        changed[:, t] = (ids[:, t] + 1) % 9
        moved = (decode(changed) - before).abs().amax(-1) > 1e-6
        assert not moved[:, :t].any() and moved[:, t:].all()


def check_no_peeking__one_place(decode):
    """You try one place in the middle. A decoder may go wrong elsewhere, for instance at the first id: try every place."""
    ids = torch.randint(0, 9, (2, 6))
    before = decode(ids)
    changed = ids.clone()
    changed[0, 3] = (ids[0, 3] + 1) % 9
    moved = (decode(changed) - before).abs().amax(-1) > 1e-6
    assert not moved[0, :3].any() and moved[0, 3:].all() and not moved[1].any()


def check_no_peeking__any_moves(decode):
    """You ask that something moves at or after the changed id. *Every* position from there on must hear it."""
    ids = torch.randint(0, 9, (2, 6))
    before = decode(ids)
    for t in range(6):
        changed = ids.clone()
        changed[0, t] = (ids[0, t] + 1) % 9
        moved = (decode(changed) - before).abs().amax(-1) > 1e-6
        assert not moved[0, :t].any() and moved[0, t:].any() and not moved[1].any()


def check_no_peeking__only_itself_must_move(decode):
    """You ask that the changed position itself moves, not those after it: a decoder that forgets slips through."""
    ids = torch.randint(0, 9, (2, 6))
    before = decode(ids)
    for t in range(6):
        changed = ids.clone()
        changed[0, t] = (ids[0, t] + 1) % 9
        moved = (decode(changed) - before).abs().amax(-1) > 1e-6
        assert not moved[0, :t].any() and moved[0, t] and not moved[1].any()


def check_no_peeking__argmax(decode):
    """You compare the likeliest tokens. A small peek moves the logits long before it changes the winner: compare the logits."""
    ids = torch.randint(0, 9, (2, 6))
    before = decode(ids).argmax(-1)
    for t in range(6):
        changed = ids.clone()
        changed[0, t] = (ids[0, t] + 1) % 9
        moved = decode(changed).argmax(-1) != before
        assert not moved[0, :t].any() and not moved[1].any()


def check_no_peeking__random_change(decode):
    """You replace the id by a random one, which is now and then the same one: then nothing moves, and a right decoder is accused. Make sure that it changes."""
    ids = torch.randint(0, 9, (2, 6))
    before = decode(ids)
    for t in range(6):
        changed = ids.clone()
        changed[0, t] = torch.randint(0, 9, ())
        moved = (decode(changed) - before).abs().amax(-1) > 1e-6
        assert not moved[0, :t].any() and moved[0, t:].all() and not moved[1].any()


def check_no_peeking__right__who_moved(decode):
    ids = torch.randint(0, 8, (3, 5))
    before = decode(ids)
    for b in range(3):
        for t in range(5):
            other = ids.clone()
            other[b, t] += 1
            moved = (decode(other) - before).abs().sum(-1) > 1e-5
            expected = torch.zeros(3, 5, dtype=torch.bool)
            expected[b, t:] = True
            assert torch.equal(moved, expected), f"id {t} of row {b} must move that row from {t} on and nothing else"


def check_no_peeking__right__prefixes(decode):
    ids = torch.randint(0, 9, (2, 6))
    full = decode(ids)
    for t in range(1, 7):
        torch.testing.assert_close(decode(ids[:, :t]), full[:, :t], atol=1e-5, rtol=0)
        torch.testing.assert_close(decode(ids[:1, :t]), full[:1, :t], atol=1e-5, rtol=0)
        changed = ids[:, :t].clone()
        for s in range(t):
            changed[:, s] = (ids[:, s] + 4) % 9
            assert ((decode(changed)[:, -1] - full[:, t - 1]).abs().amax(-1) > 1e-6).all(), "an id is not read"
            changed[:, s] = ids[:, s]


def check_no_peeking__right__all_at_once(decode):
    n = 7
    ids = torch.randint(0, 9, (1, n))
    variants = ids.repeat(n, 1)
    variants[torch.arange(n), torch.arange(n)] = (ids[0] + 2) % 9
    alone = torch.cat([decode(v[None]) for v in variants])
    moved = (alone - decode(ids)).abs().amax(-1) > 1e-6  # (changed place, position)
    assert torch.equal(moved, causal_mask(n).T), "each id must be heard from its own place on, and not before"
    assert torch.allclose(decode(variants), alone, atol=1e-5), "rows of a batch influence each other"
