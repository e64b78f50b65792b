"""Wrong versions of the pieces of assignment 12 that learners really write, and right ones in other styles.

Named piece__what_is_wrong; the docstring is what a tutor would say. The grader replays a learner's calls on them.
"""

import copy
import functools
import math

import torch
from torch import nn

from encoder.bert import parameter_count
from encoder.layer import EncoderLayer
from encoder.variants import SharedEncoder

# --- roberta_positions ---------------------------------------------------------------------------------------------


def roberta_positions__no_offset(ids, pad_id):
    """Your positions start at 1 and give padding 0: the offset pad_id is missing. With RoBERTa's pad_id = 1 every row of the table is read one too early."""
    real = ids != pad_id
    return real.cumsum(1) * real


def roberta_positions__like_bert(ids, pad_id):
    """You count every place from 0, as BERT does. RoBERTa counts real tokens only, from pad_id + 1, and gives padding the position pad_id."""
    return torch.arange(ids.size(1), device=ids.device).expand_as(ids)


def roberta_positions__padding_counted(ids, pad_id):
    """You count padding as if it were a token: with padding in front the text starts too late, and padding itself must stay at pad_id."""
    return (torch.arange(ids.size(1), device=ids.device) + pad_id + 1).expand_as(ids)


def roberta_positions__padding_keeps_the_count(ids, pad_id):
    """Your padding keeps the position of the last real token before it. Multiply the count by the mask of real tokens, so that padding ends at pad_id."""
    return (ids != pad_id).cumsum(1) + pad_id


def roberta_positions__one_too_low(ids, pad_id):
    """Your first token stands at pad_id, the place that belongs to padding. Real tokens count from pad_id + 1."""
    real = ids != pad_id
    return (real.cumsum(1) - 1) * real + pad_id


def roberta_positions__one_too_high(ids, pad_id):
    """Your first token stands at pad_id + 2: you added 1 although the cumulative sum already starts at 1."""
    real = ids != pad_id
    return (real.cumsum(1) + 1) * real + pad_id


def roberta_positions__mask_inverted(ids, pad_id):
    """You count the padding instead of the tokens: a token is real where ids != pad_id."""
    real = ids == pad_id
    return real.cumsum(1) * real + pad_id


def roberta_positions__along_the_batch(ids, pad_id):
    """You count down the batch, from one text to the next. The tokens of a text lie along axis 1."""
    real = ids != pad_id
    return real.cumsum(0) * real + pad_id


def roberta_positions__padding_at_zero(ids, pad_id):
    """Your padding gets position 0. Its row is pad_id: add the offset to padding, too, not only to real tokens."""
    real = ids != pad_id
    return (real.cumsum(1) + pad_id) * real


def roberta_positions__pad_id_fixed(ids, pad_id):
    """You wrote RoBERTa's 1 into the code. Use the argument pad_id: other vocabularies pad with another number."""
    real = ids != 1
    return real.cumsum(1) * real + 1


def roberta_positions__floats(ids, pad_id):
    """Your positions are floating-point numbers. An embedding table is indexed with int64: leave the mask boolean, and cumsum counts in whole numbers."""
    real = (ids != pad_id).float()
    return real.cumsum(1) * real + pad_id


def roberta_positions__larger_ids_only(ids, pad_id):
    """You take every id up to pad_id for padding. Only pad_id itself is: compare with !=, not with >."""
    real = ids > pad_id
    return real.cumsum(1) * real + pad_id


def roberta_positions__from_the_length(ids, pad_id):
    """You number the first n places of a text with n tokens. That holds only while all padding is at the end: count tokens where they stand."""
    n = (ids != pad_id).sum(1, keepdim=True)
    place = torch.arange(ids.size(1), device=ids.device)
    return torch.where(place < n, place + pad_id + 1, pad_id)


def roberta_positions__offset_two(ids, pad_id):
    """You wrote the 2 of RoBERTa's first position into the code. It is pad_id + 1: other vocabularies pad with another number."""
    real = ids != pad_id
    return torch.where(real, real.cumsum(1) + 1, pad_id)


def roberta_positions__right__loop(ids, pad_id):
    positions = torch.full_like(ids, pad_id)
    for row, text in enumerate(ids.tolist()):
        count = pad_id
        for column, token in enumerate(text):
            if token != pad_id:
                count += 1
                positions[row, column] = count
    return positions


def roberta_positions__right__where(ids, pad_id):
    real = ids.ne(pad_id)
    return torch.where(real, torch.cumsum(real.long(), dim=1) + pad_id, pad_id)


def roberta_positions__right__masked_fill(ids, pad_id):
    count = torch.cumsum((ids != pad_id).int(), 1)
    return (count + pad_id).masked_fill(ids == pad_id, pad_id).long()


# --- SharedEncoder -------------------------------------------------------------------------------------------------


class SharedEncoder__one_pass(SharedEncoder):
    """Your result is that of a single pass. ALBERT saves parameters, not depth: the one layer is applied n_layers times, each pass on the output of the one before, never on the first input again."""

    def forward(self, x, mask=None):
        return self.layer(x, mask)


class SharedEncoder__one_pass_too_few(SharedEncoder):
    """You make one pass too few: n_layers passes are range(n_layers), not range(n_layers - 1) or range(1, n_layers)."""

    def forward(self, x, mask=None):
        for _ in range(1, self.n_layers):
            x = self.layer(x, mask)
        return x


class SharedEncoder__one_pass_too_many(SharedEncoder):
    """You make one pass too many: the call before the loop counts as a pass already."""

    def forward(self, x, mask=None):
        x = self.layer(x, mask)
        for _ in range(self.n_layers):
            x = self.layer(x, mask)
        return x


class SharedEncoder__mask_forgotten(SharedEncoder):
    """Your passes do not get the mask, so real tokens read padding. Hand it to the layer every time."""

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = self.layer(x)
        return x


class SharedEncoder__mask_in_the_first_pass_only(SharedEncoder):
    """Only your first pass is masked; from the second on real tokens read padding. The same mask goes to every pass."""

    def forward(self, x, mask=None):
        x = self.layer(x, mask)
        for _ in range(self.n_layers - 1):
            x = self.layer(x)
        return x


class SharedEncoder__another_residual(SharedEncoder):
    """You add the layer's output to its input once more. The layer has its own residual connections inside: its output *is* the new x."""

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = x + self.layer(x, mask)
        return x


class SharedEncoder__mean_of_all_passes(SharedEncoder):
    """You return the mean of all passes. The output of the encoder is what the last pass wrote, no more."""

    def forward(self, x, mask=None):
        states = []
        for _ in range(self.n_layers):
            x = self.layer(x, mask)
            states.append(x)
        return torch.stack(states).mean(0)


class SharedEncoder__input_added_to_every_pass(SharedEncoder):
    """You add the embedded input again before every pass. Every pass reads what the pass before has written, and nothing else."""

    def forward(self, x, mask=None):
        state = x
        for i in range(self.n_layers):
            state = self.layer(state if i == 0 else state + x, mask)
        return state


class SharedEncoder__detached_between_passes(SharedEncoder):
    """Your values are right, but gradients stop between the passes, so only the last one trains the layer. No detach, no no_grad: a shared layer learns from all its passes."""

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = self.layer(x.detach(), mask)
        return x


class SharedEncoder__copies_made_on_the_fly(SharedEncoder):
    """You run copies of the layer made in forward: the values are right, but the gradient goes to the copies, which are thrown away, and the layer itself never learns."""

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = copy.deepcopy(self.layer)(x, mask)
        return x


class SharedEncoder__copied_layers(SharedEncoder):
    """You copy the layer n_layers times instead of sharing it: the copies start equal, are trained apart, and cost as many parameters as BERT."""

    def __init__(self, n_layers, d_model, n_heads, d_ff, dropout=0.0, activation="gelu", eps=1e-5):
        super().__init__(n_layers, d_model, n_heads, d_ff, dropout, activation, eps)
        self.layers = nn.ModuleList(copy.deepcopy(self.layer) for _ in range(n_layers))

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class SharedEncoder__mask_inverted(SharedEncoder):
    """You turn the mask round before you hand it on. True means "may attend" here as everywhere: pass it as it is."""

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = self.layer(x, None if mask is None else ~mask)
        return x


class SharedEncoder__normed_once_more(SharedEncoder):
    """You normalise once more at the end. A post-LN layer ends with its norm already."""

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = self.layer(x, mask)
        return self.layer.norm2(x)


class SharedEncoder__all_passes_returned(SharedEncoder):
    """You return the outputs of all passes. The encoder gives one vector a token: the last pass."""

    def forward(self, x, mask=None):
        outs = []
        for _ in range(self.n_layers):
            x = self.layer(x, mask)
            outs.append(x)
        return torch.stack(outs)


class SharedEncoder__right__reduce(SharedEncoder):
    def forward(self, x, mask=None):
        return functools.reduce(lambda state, _: self.layer(state, mask), range(self.n_layers), x)


class SharedEncoder__right__while(SharedEncoder):
    def forward(self, x, mask=None):
        passes = 0
        while passes < self.n_layers:
            x, passes = self.layer(x, mask), passes + 1
        return x


class SharedEncoder__right__list_of_one_layer(SharedEncoder):
    def forward(self, x, mask=None):
        for layer in [self.layer] * self.n_layers:  # the same object many times, not copies of it
            x = layer(x, mask=mask)
        return x


# --- parameter_bill ------------------------------------------------------------------------------------------------


def parameter_bill__no_biases(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You count weights but no biases. Each of the six maps of a layer, the widening map and both norms have one."""
    embedding = vocab_size * (d_embedding or d_model) + (d_embedding * d_model if d_embedding else 0)
    layer = 4 * d_model**2 + 2 * d_model * d_ff + 2 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__no_norms(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You left out the LayerNorms: two a layer, each with a scale and a shift of width D."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__one_norm(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You count 2·D numbers for the LayerNorms of a layer. There are two norms, and each has a scale and a shift: 4·D."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 2 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__three_projections(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You count three projections: queries, keys, values. The output projection that joins the heads is the fourth."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 3 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__widening_forgotten(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """Your factorised table stays E wide: the map from E to D that makes its rows as wide as the model is missing."""
    embedding = vocab_size * (d_embedding or d_model)
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__widening_without_bias(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """Your widening map has no bias. It is an ordinary linear map from E to D: E·D weights and D biases."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__full_table_kept(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You add the narrow table to the wide one. V × E takes the place of V × D: that is where the saving comes from."""
    embedding = vocab_size * d_model
    if d_embedding is not None:
        embedding += (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__sharing_ignored(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You multiply by the number of layers even when they are shared. Applied L times, a shared layer is still stored once."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return embedding, n_layers * layer


def parameter_bill__feedforward_once(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You count one map of the feed-forward. It goes up from D to F and down again: two maps, with biases of width F and D."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + d_model * d_ff + d_ff + 4 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__feedforward_four_times_wide(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You take the feed-forward to be 4·D wide. That is usual, but its width is given: use d_ff."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + 8 * d_model**2 + 5 * d_model + 4 * d_model
    return embedding, layer if shared else n_layers * layer


def parameter_bill__one_sum(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You return one sum. Return two numbers, (token embedding, layers): one shows what factorising saves, the other what sharing saves."""
    embedding = vocab_size * d_model if d_embedding is None else (vocab_size + d_model) * d_embedding + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return embedding + (layer if shared else n_layers * layer)


def parameter_bill__widening_always(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """You widen the table even when it is not factorised, from D to D. Without d_embedding there is one table, V × D, and no map."""
    e = d_embedding or d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return vocab_size * e + e * d_model + d_model, layer * (1 if shared else n_layers)


def parameter_bill__table_with_bias(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    """Your table has a bias. It is looked up, not multiplied: V rows and nothing else."""
    e = d_embedding or d_model
    table = vocab_size * e + e
    if d_embedding:
        table += e * d_model + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    return table, layer * (1 if shared else n_layers)


def parameter_bill__feedforward_biases_of_one_width(
    vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False
):
    """Both of your feed-forward biases are F wide. A bias is as wide as what comes out: F on the way up, D on the way down."""
    table = vocab_size * d_model if d_embedding is None else vocab_size * d_embedding + d_embedding * d_model + d_model
    layer = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + 2 * d_ff + 4 * d_model
    return table, layer * (1 if shared else n_layers)


def parameter_bill__right__closed_form(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    layer = 4 * d_model**2 + 9 * d_model + d_ff * (2 * d_model + 1)
    table = vocab_size * d_model if d_embedding is None else vocab_size * d_embedding + (d_embedding + 1) * d_model
    return table, layer * (n_layers, 1)[shared]


def parameter_bill__right__made_and_counted(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    with torch.device("meta"):
        layers = parameter_count(EncoderLayer(d_model, 1, d_ff)) * (1 if shared else n_layers)
        if d_embedding is None:
            return parameter_count(nn.Embedding(vocab_size, d_model)), layers
        table = nn.Sequential(nn.Embedding(vocab_size, d_embedding), nn.Linear(d_embedding, d_model))
    return parameter_count(table), layers


def parameter_bill__right__list_of_shapes(vocab_size, d_model, d_ff, n_layers, d_embedding=None, shared=False):
    maps = [(d_model, d_model)] * 4 + [(d_model, d_ff), (d_ff, d_model)]
    layer = sum(a * b + b for a, b in maps) + 2 * (d_model + d_model)
    table = [(vocab_size, d_model)] if d_embedding is None else [(vocab_size, d_embedding), (d_embedding + 1, d_model)]
    return sum(math.prod(shape) for shape in table), sum(layer for _ in range(1 if shared else n_layers))


# --- disentangled_scores -------------------------------------------------------------------------------------------


def disentangled_scores__content_only(q, k, pos_q, pos_k, index):
    """Your scores know contents only: both terms with positions are missing, and without them DeBERTa cannot tell one order of words from another."""
    return q @ k.transpose(-2, -1) / math.sqrt(3 * q.size(-1))


def disentangled_scores__no_position_to_content(q, k, pos_q, pos_k, index):
    """Your third term is missing: k_j · pos_q[δ(i, j)], how much the key's content likes to be at that distance."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    return (q @ k.transpose(-2, -1) + to_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__no_content_to_position(q, k, pos_q, pos_k, index):
    """Your second term is missing: q_i · pos_k[δ(i, j)], which distance the query's content looks for."""
    at = index.expand(*q.shape[:2], *index.shape)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    return (q @ k.transpose(-2, -1) + from_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__third_term_not_transposed(q, k, pos_q, pos_k, index):
    """Your third term has keys along its rows: k @ pos_qᵀ starts from the keys, so pick with the transposed index and transpose what comes out."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at)
    return (q @ k.transpose(-2, -1) + to_position + from_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__third_term_at_the_opposite_distance(q, k, pos_q, pos_k, index):
    """Your third term reads pos_q at δ(j, i), the opposite distance. The paper prints it so, but its code, and every published weight, uses δ(i, j) in both terms."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at).transpose(-2, -1)
    return (q @ k.transpose(-2, -1) + to_position + from_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__picked_but_not_turned_back(q, k, pos_q, pos_k, index):
    """Your third term is picked with the transposed index, as it should be, but then has keys first. Transpose it once more before you add it."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1))
    return (q @ k.transpose(-2, -1) + to_position + from_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__second_term_at_the_opposite_distance(q, k, pos_q, pos_k, index):
    """Your second term uses the index transposed, so ahead and behind change places. Row i of the scores is read at index[i, j]."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at.transpose(-2, -1))
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    return (q @ k.transpose(-2, -1) + to_position + from_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__scaled_by_one_term(q, k, pos_q, pos_k, index):
    """You divide by √K. Three terms add three variances, so the root is over 3·K."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    return (q @ k.transpose(-2, -1) + to_position + from_position) / math.sqrt(q.size(-1))


def disentangled_scores__three_outside_the_root(q, k, pos_q, pos_k, index):
    """You divide by 3·√K. The 3 stands under the root: √(3K)."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    return (q @ k.transpose(-2, -1) + to_position + from_position) / (3 * math.sqrt(q.size(-1)))


def disentangled_scores__only_contents_scaled(q, k, pos_q, pos_k, index):
    """You scale the contents' term and add the two others unscaled. The root divides the whole sum: brackets."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    return q @ k.transpose(-2, -1) / math.sqrt(3 * q.size(-1)) + to_position + from_position


def disentangled_scores__tables_swapped(q, k, pos_q, pos_k, index):
    """You changed the tables over: a query meets the *keys* of positions, pos_k, and a key meets their *queries*, pos_q."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_q.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_k.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    return (q @ k.transpose(-2, -1) + to_position + from_position) / math.sqrt(3 * q.size(-1))


def disentangled_scores__position_to_position_added(q, k, pos_q, pos_k, index):
    """You added a fourth term, position to position. With relative positions it says the same for every sentence; DeBERTa leaves it out."""
    at = index.expand(*q.shape[:2], *index.shape)
    to_position = (q @ pos_k.transpose(-2, -1)).gather(-1, at)
    from_position = (k @ pos_q.transpose(-2, -1)).gather(-1, at.transpose(-2, -1)).transpose(-2, -1)
    both = (pos_q * pos_k).sum(-1)[:, :, index]
    return (q @ k.transpose(-2, -1) + to_position + from_position + both) / math.sqrt(3 * q.size(-1))


def disentangled_scores__third_term_from_the_queries(q, k, pos_q, pos_k, index):
    """Your third term multiplies pos_q with the queries. It asks how the *key's* content likes the distance: k_j · pos_q[δ(i, j)]."""
    T = q.size(2)
    idx = index.expand(q.size(0), q.size(1), T, T)
    c2p = (q @ pos_k.transpose(-2, -1)).gather(-1, idx)
    p2c = (q @ pos_q.transpose(-2, -1)).gather(-1, idx)
    return (q @ k.transpose(-2, -1) + c2p + p2c) / math.sqrt(3 * q.size(-1))


def disentangled_scores__two_under_the_root(q, k, pos_q, pos_k, index):
    """You divide by √(2K). There are three terms: √(3K)."""
    T = q.size(2)
    idx = index.expand(q.size(0), q.size(1), T, T)
    c2p = (q @ pos_k.transpose(-2, -1)).gather(-1, idx)
    p2c = (k @ pos_q.transpose(-2, -1)).gather(-1, idx.mT).mT
    return (q @ k.transpose(-2, -1) + c2p + p2c) / math.sqrt(2 * q.size(-1))


def disentangled_scores__unscaled(q, k, pos_q, pos_k, index):
    """You do not divide at all. The sum of three terms is scaled by √(3K)."""
    T = q.size(2)
    idx = index.expand(q.size(0), q.size(1), T, T)
    c2p = (q @ pos_k.transpose(-2, -1)).gather(-1, idx)
    p2c = (k @ pos_q.transpose(-2, -1)).gather(-1, idx.mT).mT
    return q @ k.transpose(-2, -1) + c2p + p2c


def disentangled_scores__softmaxed(q, k, pos_q, pos_k, index):
    """You return weights. Asked for are the scores: masking and softmax come later."""
    T = q.size(2)
    idx = index.expand(q.size(0), q.size(1), T, T)
    c2p = (q @ pos_k.transpose(-2, -1)).gather(-1, idx)
    p2c = (k @ pos_q.transpose(-2, -1)).gather(-1, idx.mT).mT
    return ((q @ k.transpose(-2, -1) + c2p + p2c) / math.sqrt(3 * q.size(-1))).softmax(-1)


def disentangled_scores__distance_recomputed(q, k, pos_q, pos_k, index):
    """You make the distances yourself and leave `index` unused. Which row a pair uses is given: another model may cut or bucket distances differently."""
    T, R = q.size(2), pos_k.size(2)
    place = torch.arange(T)
    idx = ((place[:, None] - place).clamp(-(R // 2), (R + 1) // 2 - 1) + R // 2).expand(q.size(0), q.size(1), T, T)
    c2p = (q @ pos_k.transpose(-2, -1)).gather(-1, idx)
    p2c = (k @ pos_q.transpose(-2, -1)).gather(-1, idx.mT).mT
    return (q @ k.transpose(-2, -1) + c2p + p2c) / math.sqrt(3 * q.size(-1))


def disentangled_scores__right__einsum(q, k, pos_q, pos_k, index):
    content = torch.einsum("bhik,bhjk->bhij", q, k)
    to_position = torch.einsum("bhik,hijk->bhij", q, pos_k[0][:, index])
    from_position = torch.einsum("bhjk,hijk->bhij", k, pos_q[0][:, index])
    return (content + to_position + from_position) / (3 * q.shape[-1]) ** 0.5


def disentangled_scores__right__loops(q, k, pos_q, pos_k, index):
    rows = []
    for i in range(q.size(2)):
        scores = []
        for j in range(k.size(2)):
            r = int(index[i, j])
            a, b = q[:, :, i], k[:, :, j]
            scores.append((a * b).sum(-1) + (a * pos_k[:, :, r]).sum(-1) + (b * pos_q[:, :, r]).sum(-1))
        rows.append(torch.stack(scores, -1))
    return torch.stack(rows, -2) / math.sqrt(3 * q.size(-1))


def disentangled_scores__right__one_product(q, k, pos_q, pos_k, index):
    near_k, near_q = pos_k[:, :, index], pos_q[:, :, index]  # (1, H, T, T, K)
    total = q[:, :, :, None] * (k[:, :, None] + near_k) + k[:, :, None] * near_q
    return total.sum(-1).div(math.sqrt(3 * q.size(-1)))
