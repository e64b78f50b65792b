"""Assignment 03: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math

import torch
from torch.nn import functional as F

from encoder.attention import attention_weights, scaled_dot_product_attention
from encoder.checks import check_divisible
from encoder.heads import MultiHeadAttention, diversity_penalty, merge_heads, split_heads
from encoder.packing import attend

# --- split_heads -----------------------------------------------------------------------------------------------------


def split_heads__bare_reshape(x, n_heads):
    """You reshape (B, T, D) straight to (B, H, T, K). A reshape never moves numbers, so your heads mix tokens: cut the last axis in two, then swap two axes."""
    check_divisible(x.size(-1), n_heads)
    return x.reshape(x.size(0), n_heads, x.size(1), x.size(2) // n_heads)


def split_heads__interleaved(x, n_heads):
    """Your head h takes every H-th feature. It should hold K consecutive ones, h·K … (h+1)·K − 1: the heads are the outer cut of the last axis, the features within a head the inner one."""
    check_divisible(x.size(-1), n_heads)
    return x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2)


def split_heads__never_swapped(x, n_heads):
    """You return (B, T, H, K): the heads still stand behind the tokens. Swap axes 1 and 2, so that each head has a (T, K) matrix of its own."""
    check_divisible(x.size(-1), n_heads)
    return x.unflatten(-1, (n_heads, -1))


def split_heads__heads_first(x, n_heads):
    """You return (H, B, T, K). The batch stays in front: (B, H, T, K)."""
    check_divisible(x.size(-1), n_heads)
    return torch.stack(x.chunk(n_heads, -1), 0)


def split_heads__number_and_width_swapped(x, n_heads):
    """You cut the width into pieces of n_heads features. n_heads says how many pieces there are, not how wide they are."""
    check_divisible(x.size(-1), n_heads)
    return x.unflatten(-1, (-1, n_heads)).transpose(1, 2)


def split_heads__folded_into_batch(x, n_heads):
    """You fold the heads into the batch, (B·H, T, K). Keep them as an axis of their own: (B, H, T, K)."""
    check_divisible(x.size(-1), n_heads)
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2).flatten(0, 1)


def split_heads__remainder_dropped(x, n_heads):
    """When the width cannot be shared out evenly you drop the features that are left over. Refuse it with check_divisible: silent loss is the worst kind."""
    width = x.size(-1) // n_heads
    return x[..., : n_heads * width].unflatten(-1, (n_heads, width)).transpose(1, 2)


def split_heads__cryptic_error(x, n_heads):
    """When the width cannot be shared out evenly you fail with PyTorch's message about shapes. Call check_divisible first: it raises a ValueError that says what is wrong."""
    return x.reshape(x.size(0), x.size(1), n_heads, x.size(2) // n_heads).transpose(1, 2)


def split_heads__keys_transposed(x, n_heads):
    """You return (B, H, K, T): the last two axes are swapped. Attention transposes the keys itself."""
    check_divisible(x.size(-1), n_heads)
    return x.unflatten(-1, (n_heads, -1)).permute(0, 2, 3, 1)


def split_heads__right__chunks(x, n_heads):
    check_divisible(x.size(-1), n_heads)
    return torch.stack(torch.chunk(x, n_heads, dim=-1), dim=1)


def split_heads__right__view_permute(x, n_heads):
    b, t, d = x.shape
    if d % n_heads:
        raise ValueError(f"{d} features cannot be shared by {n_heads} heads")
    return x.view(b, t, n_heads, d // n_heads).permute(0, 2, 1, 3).contiguous()


def split_heads__right__loops(x, n_heads):
    b, t, d = x.shape
    if d % n_heads:
        raise ValueError(f"{d} features cannot be shared by {n_heads} heads")
    k = d // n_heads
    out = x.new_zeros(b, n_heads, t, k)
    for h in range(n_heads):
        out[:, h] = x[:, :, h * k : (h + 1) * k]
    return out


# --- merge_heads -----------------------------------------------------------------------------------------------------


def merge_heads__bare_reshape(x):
    """You reshape (B, H, T, K) straight to (B, T, H·K), so what lands in a token's row comes from several tokens. Swap heads and tokens first."""
    return x.reshape(x.size(0), x.size(2), -1)


def merge_heads__interleaved(x):
    """You weave the heads together, feature by feature. The heads of a token stand one after the other: all K features of head 0, then those of head 1."""
    return x.permute(0, 2, 3, 1).flatten(2)


def merge_heads__averaged(x):
    """You average the heads, and K features are left of H·K. Concatenate them: nothing is lost."""
    return x.mean(1)


def merge_heads__added(x):
    """You add the heads up, and K features are left of H·K. Put them side by side instead."""
    return x.sum(1)


def merge_heads__tokens_flattened(x):
    """You flatten the tokens of each head: (B, H, T·K). It is the heads that are joined, token by token: (B, T, H·K)."""
    return x.flatten(-2)


def merge_heads__batch_flattened(x):
    """You join the batch and the tokens: (B·T, H·K). Keep them apart: (B, T, H·K)."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def merge_heads__last_head_first(x):
    """Your last head comes first. Merging undoes splitting: head 0 holds the first K features."""
    return x.flip(1).transpose(1, 2).flatten(2)


def merge_heads__transposed(x):
    """You return (B, H·K, T). The features are the last axis: (B, T, H·K)."""
    return x.transpose(1, 2).flatten(2).transpose(1, 2)


def merge_heads__never_joined(x):
    """You swap heads and tokens but never join the last two axes: (B, T, H, K) has to become (B, T, H·K)."""
    return x.transpose(1, 2)


def merge_heads__right__cat(x):
    return torch.cat([x[:, h] for h in range(x.size(1))], dim=-1)


def merge_heads__right__permute_reshape(x):
    b, h, t, k = x.shape
    return x.permute(0, 2, 1, 3).reshape(b, t, h * k)


def merge_heads__right__loops(x):
    b, h, t, k = x.shape
    out = x.new_zeros(b, t, h * k)
    for head in range(h):
        out[..., head * k : (head + 1) * k] = x[:, head]
    return out


# --- MultiHeadAttention ----------------------------------------------------------------------------------------------


class MultiHeadAttention__bare_reshape(MultiHeadAttention):
    """Your heads mix tokens: you reshape (B, T, D) straight to (B, H, T, K). Shapes are right and it even trains, but a head no longer holds a slice of every token. Use split_heads."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (y.reshape(y.size(0), self.n_heads, y.size(1), -1) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__no_output_projection(MultiHeadAttention):
    """You return the joined heads as they are. Without out_proj the heads never get mixed: head h could only ever write into its own K features."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return merge_heads(heads)


class MultiHeadAttention__keys_from_the_query_projection(MultiHeadAttention):
    """You make the keys with q_proj. Then a word can only look for what it is itself: keys have their own matrix, k_proj."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.q_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__values_not_projected(MultiHeadAttention):
    """You hand over the memory as it is: the values are missing their projection, v_proj."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), memory
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__values_from_the_key_projection(MultiHeadAttention):
    """You make the values with k_proj. What a word offers and what it hands over are two things: values have their own matrix, v_proj."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.k_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__merged_by_reshape(MultiHeadAttention):
    """You join the heads with a bare reshape, without moving the heads behind the tokens: each row of your output mixes several tokens. Use merge_heads."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(heads.reshape(x.shape))


class MultiHeadAttention__memory_ignored(MultiHeadAttention):
    """You never read the memory: your keys and values always come from x."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__queries_from_memory(MultiHeadAttention):
    """You take the queries from the memory and the keys from x. It is x that asks and the memory that answers: one output for each token of x."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(memory), self.k_proj(x), self.v_proj(x)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__mask_ignored(MultiHeadAttention):
    """Your output is the same with and without a mask: it never reaches attend."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, None, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__bias_ignored(MultiHeadAttention):
    """Your output is the same with and without a bias on the scores: it never reaches attend."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, None, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__dropout_in_eval(MultiHeadAttention):
    """Two calls in eval mode differ: your dropout is alive when the model is used. Give attend the rate only while self.training."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__dropout_never(MultiHeadAttention):
    """Your dropout never acts, not even in training: attend gets no rate."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__scaled_by_model_width(MultiHeadAttention):
    """Your scores are divided by √D, the width of the model. Each head computes its scores on K = D/H features: its scale is √K."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, self.n_heads) for y in (q / math.sqrt(self.n_heads), k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__one_wide_head(MultiHeadAttention):
    """You attend with one head of the full width: the queries, keys and values are never split, so n_heads makes no difference."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        q, k, v = (split_heads(y, 1) for y in (q, k, v))
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__dropout_the_wrong_way_round(MultiHeadAttention):
    """Your dropout acts when the model is used and rests while it is trained: the two sides of `if self.training` have changed places."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        heads = attend(q, k, v, mask, bias, 0.0 if self.training else self.dropout)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__dropout_on_the_output(MultiHeadAttention):
    """You drop features of the output. Here dropout acts on the attention weights, so that a whole token goes unread: give the rate to attend."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        heads = attend(q, k, v, mask, bias)
        return F.dropout(self.out_proj(merge_heads(heads)), self.dropout, self.training)


class MultiHeadAttention__dropout_on_the_heads(MultiHeadAttention):
    """You drop features of what the heads have read. Here dropout acts on the attention weights, so that a whole token goes unread: give the rate to attend."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        heads = F.dropout(attend(q, k, v, mask, bias), self.dropout, self.training)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__residual_inside(MultiHeadAttention):
    """You add x to the result. The residual connection belongs to the layer around this piece (assignment 05); added here, it would come twice."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return x + self.out_proj(merge_heads(heads))


class MultiHeadAttention__mask_lost_beside_the_bias(MultiHeadAttention):
    """Your mask works alone and your bias works alone, but with both only the bias acts. Give attend both."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        mask = mask if bias is None else None
        heads = attend(q, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__scaled_twice(MultiHeadAttention):
    """You divide by √K, and attend does so once more: the weights come out too even."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        heads = attend(q / q.size(-1) ** 0.5, k, v, mask, bias, self.dropout if self.training else 0.0)
        return self.out_proj(merge_heads(heads))


class MultiHeadAttention__nan_when_nothing_is_left(MultiHeadAttention):
    """A query that may read nothing gets nan from you: a softmax over only −∞ is 0/0. attend gives zeros there."""

    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        pairs = ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        q, k, v = (split_heads(layer(y), self.n_heads) for layer, y in pairs)
        scores = q @ k.mT / q.size(-1) ** 0.5
        scores = scores if bias is None else scores + bias
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        weights = F.dropout(scores.softmax(-1), self.dropout, self.training)
        return self.out_proj(merge_heads(weights @ v))


class MultiHeadAttention__right__chunks(MultiHeadAttention):
    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        layers = (self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory)
        q, k, v = (torch.stack(layer(y).chunk(self.n_heads, -1), 1) for layer, y in layers)
        rate = self.dropout if self.training else 0.0
        heads = attend(q, k, v, mask, bias, rate)
        return self.out_proj(torch.cat(list(heads.unbind(1)), -1))


class MultiHeadAttention__right__head_by_head(MultiHeadAttention):
    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        width, total = q.size(-1) // self.n_heads, self.out_proj.bias
        for h in range(self.n_heads):
            part = slice(h * width, (h + 1) * width)
            scores = q[..., part] @ k[..., part].mT / math.sqrt(width)
            if bias is not None:
                scores = scores + bias.expand(-1, self.n_heads, -1, -1)[:, h]
            if mask is not None:
                allowed = mask.expand(*mask.shape[:-3], self.n_heads, *mask.shape[-2:])[..., h, :, :]
                scores = scores.masked_fill(~allowed, -torch.inf)
            weights = F.dropout(scores.softmax(-1).nan_to_num(), self.dropout, self.training)
            total = total + weights @ v[..., part] @ self.out_proj.weight[:, part].T
        return total


class MultiHeadAttention__right__einsum(MultiHeadAttention):
    def forward(self, x, mask=None, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = (
            layer(y).unflatten(-1, (self.n_heads, -1))
            for layer, y in ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        )
        scores = torch.einsum("bthk,bshk->bhts", q, k) / math.sqrt(q.size(-1))
        scores = scores if bias is None else scores + bias
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        weights = F.dropout(scores.softmax(-1).nan_to_num(), self.dropout, self.training)
        return self.out_proj(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2))


# --- inspect_heads ---------------------------------------------------------------------------------------------------


def inspect_heads__rows_of_out_proj(attention, x, mask=None):
    """You take K rows of out_proj.weight for each head. nn.Linear computes x Wᵀ, so a head's own numbers are K columns of the weight."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(0, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,hkd->bhtd", heads, w_out)


def inspect_heads__columns_interleaved(attention, x, mask=None):
    """You give head h every H-th column of out_proj.weight. After merging, head h stands in columns h·K … (h+1)·K − 1: consecutive ones."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (-1, attention.n_heads))
    return weights, torch.einsum("bhtk,dkh->bhtd", heads, w_out)


def inspect_heads__out_proj_forgotten(attention, x, mask=None):
    """You return what the heads read, before out_proj, padded with zeros. What a head adds to the output has passed through its columns of out_proj."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    place = torch.eye(x.size(-1)).unflatten(1, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,dhk->bhtd", heads, place)


def inspect_heads__bias_in_every_head(attention, x, mask=None):
    """You add the bias of out_proj to every head, so it is counted H times. It belongs to no head: leave it out."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,dhk->bhtd", heads, w_out) + attention.out_proj.bias


def inspect_heads__bias_shared_out(attention, x, mask=None):
    """You share the bias of out_proj out among the heads. It is there whatever the heads read, so it belongs to none of them: leave it out."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,dhk->bhtd", heads, w_out) + attention.out_proj.bias / attention.n_heads


def inspect_heads__mask_ignored(attention, x, mask=None):
    """The mask makes no difference to what you return: pass it on to the attention."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,dhk->bhtd", heads, w_out)


def inspect_heads__results_swapped(attention, x, mask=None):
    """You return (contributions, weights). The order asked for is (weights, contributions)."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return torch.einsum("bhtk,dhk->bhtd", heads, w_out), weights


def inspect_heads__scores_returned(attention, x, mask=None):
    """Your first result holds raw scores. Return the weights, after the softmax: their rows sum to one."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return q @ k.mT / math.sqrt(q.size(-1)), torch.einsum("bhtk,dhk->bhtd", heads, w_out)


def inspect_heads__nothing_attended(attention, x, mask=None):
    """Your contributions are the projected values of each token itself: the weights are never used to mix them."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,dhk->bhtd", v, w_out)


def inspect_heads__whole_output_for_every_head(attention, x, mask=None):
    """Every head of yours contributes the whole output divided by H. Each adds its own part: its K features times its K columns of out_proj."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    q, k, v = (split_heads(proj(x), attention.n_heads) for proj in projections)
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    w_out = attention.out_proj.weight.unflatten(1, (attention.n_heads, -1))
    return weights, torch.einsum("bhtk,dhk->btd", heads, w_out)[:, None].expand(
        -1, attention.n_heads, -1, -1
    ) / attention.n_heads


def inspect_heads__right__one_head_at_a_time(attention, x, mask=None):
    q, k, v = (
        split_heads(proj(x), attention.n_heads) for proj in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    heads, weights = scaled_dot_product_attention(q, k, v, mask)
    columns = attention.out_proj.weight.chunk(attention.n_heads, 1)
    return weights, torch.stack([heads[:, h] @ columns[h].T for h in range(attention.n_heads)], 1)


def inspect_heads__right__others_silenced(attention, x, mask=None):
    n = attention.n_heads
    q, k, v = (split_heads(proj(x), n) for proj in (attention.q_proj, attention.k_proj, attention.v_proj))
    weights = attention_weights(q, k, mask)
    heads, parts = weights @ v, []
    for h in range(n):
        alone = torch.zeros_like(heads)
        alone[:, h] = heads[:, h]
        parts.append(F.linear(merge_heads(alone), attention.out_proj.weight))
    return weights, torch.stack(parts, dim=1)


def inspect_heads__right__broadcast(attention, x, mask=None):
    n = attention.n_heads
    q, k, v = (split_heads(proj(x), n) for proj in (attention.q_proj, attention.k_proj, attention.v_proj))
    weights = attention_weights(q, k, mask)
    w_out = attention.out_proj.weight.T.reshape(n, -1, attention.out_proj.weight.size(0))  # (H, K, D)
    return weights, weights @ v @ w_out


# --- diversity_penalty -----------------------------------------------------------------------------------------------


def diversity_penalty__heads_with_themselves(weights):
    """You count each head with itself, where the cosine is always 1: even heads that share nothing get 1/H. Leave out the diagonal."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    return cosines.square().mean()


def diversity_penalty__divided_by_all_pairs(weights):
    """You leave out the diagonal but still divide by H². There are H·(H − 1) pairs of different heads."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean() / n**2


def diversity_penalty__not_squared(weights):
    """You average the cosines themselves. Their squares are asked for."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    return ((cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(1)) / max(1, n * (n - 1))).mean()


def diversity_penalty__mean_before_the_square(weights):
    """You average the cosines and square the average. Square each cosine first, then average."""
    n = weights.size(1)
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    return ((cosines.sum((1, 2)) - n) / max(1, n * (n - 1))).square().mean()


def diversity_penalty__half(weights):
    """You take each pair of heads once but divide by H·(H − 1), which counts each pair twice: your penalty is half as large as it should be."""
    n = weights.size(1)
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    return cosines.square().triu(1).sum((1, 2)).mean() / max(1, n * (n - 1))


def diversity_penalty__lengths_kept(weights):
    """You multiply the attention matrices without scaling them to length 1: two sharp heads then cost more than two flat ones. A cosine divides by both lengths."""
    flat = weights.flatten(2)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean() / max(1, n * (n - 1))


def diversity_penalty__each_query_scaled(weights):
    """You scale each row of weights to length 1, so the whole matrix has length √T. Flatten a head's matrix first, then scale it as one vector."""
    flat = F.normalize(weights, dim=-1).flatten(2)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean() / max(1, n * (n - 1))


def diversity_penalty__upside_down(weights):
    """You return one minus the penalty, which is large when heads differ. A penalty is large when they are alike."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return 1 - others.mean() / max(1, n * (n - 1))


def diversity_penalty__sum_of_pairs(weights):
    """You add up all pairs. Their mean is asked for, so that the number lies between 0 and 1 for any number of heads."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean()


def diversity_penalty__one_number_a_sequence(weights):
    """You return a number for each sequence. Average over the batch: a loss is one number."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others / max(1, n * (n - 1))


def diversity_penalty__compares_sequences(weights):
    """You compare the sequences of the batch, head by head. It is the heads that are compared, within each sequence."""
    flat = F.normalize(weights.transpose(0, 1).flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(0)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean() / max(1, n * (n - 1))


def diversity_penalty__one_head_is_nan(weights):
    """With a single head you divide 0 by 0. There are no pairs, so the penalty is 0."""
    flat = F.normalize(weights.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean() / torch.tensor(float(n * (n - 1)))


def diversity_penalty__batch_averaged_first(weights):
    """You average the weights over the batch before comparing heads. Two heads may differ in every sentence and still agree on average: compare within each sequence, then average."""
    flat = F.normalize(weights.mean(0).flatten(1), dim=-1)
    cosines = flat @ flat.T
    n = weights.size(1)
    return (cosines.square().sum() - cosines.diagonal().square().sum()) / max(1, n * (n - 1))


def diversity_penalty__detached(weights):
    """Your value is right, but it has no gradient: as part of a loss it would change nothing."""
    flat = F.normalize(weights.detach().flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    n = weights.size(1)
    others = cosines.square().sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).square().sum(1)
    return others.mean() / max(1, n * (n - 1))


def diversity_penalty__right__loops(weights):
    n, total = weights.size(1), weights.new_zeros(())
    for g in range(n):
        for h in range(n):
            if g != h:
                pair = F.cosine_similarity(weights[:, g].flatten(1), weights[:, h].flatten(1), dim=-1)
                total = total + (pair**2).mean()
    return total / (n * (n - 1)) if n > 1 else total


def diversity_penalty__right__masked_diagonal(weights):
    n = weights.size(1)
    if n == 1:
        return 0.0 * weights.sum()
    flat = weights.flatten(2)
    flat = flat / flat.norm(dim=-1, keepdim=True)
    squares = torch.einsum("bgx,bhx->bgh", flat, flat) ** 2
    return squares[:, ~torch.eye(n, dtype=torch.bool, device=weights.device)].mean()


def diversity_penalty__right__upper_triangle(weights):
    n = weights.size(1)
    if n < 2:
        return weights.new_zeros(())
    g, h = torch.triu_indices(n, n, 1)
    flat = weights.flatten(2)
    return torch.cosine_similarity(flat[:, g], flat[:, h], dim=-1).square().mean()


# --- effective_heads -------------------------------------------------------------------------------------------------


def effective_heads__norms_for_energies(contributions):
    """You use the length of what a head adds where its energy is asked, the square of the length. Weak heads count too much."""
    energy = contributions.square().sum((0, 2, 3)).sqrt()
    return energy.sum().square() / energy.square().sum().clamp(min=torch.finfo(energy.dtype).tiny)


def effective_heads__upside_down(contributions):
    """Your fraction is upside down: it falls to 1/H when all heads work. Σ e squared belongs on top."""
    energy = contributions.square().sum((0, 2, 3))
    return energy.square().sum() / energy.sum().square().clamp(min=torch.finfo(energy.dtype).tiny)


def effective_heads__entropy(contributions):
    """You return the exponential of the entropy of the shares. It also counts heads, but otherwise: (Σ e)² / Σ e² is asked for."""
    energy = contributions.square().sum((0, 2, 3))
    share = energy / energy.sum().clamp(min=torch.finfo(energy.dtype).tiny)
    return torch.special.entr(share).sum().exp() * (energy.sum() > 0)


def effective_heads__counted_above_a_limit(contributions):
    """You count the heads above a limit. The measure has no limit to choose: it weighs every head by its energy."""
    energy = contributions.square().sum((0, 2, 3))
    return (energy > 0.01 * energy.sum()).sum().float()


def effective_heads__sequence_by_sequence(contributions):
    """You take the measure of each sequence and average. The energy of a head is its sum over batch, tokens and features together."""
    energy = contributions.square().sum((2, 3))
    return (energy.sum(1).square() / energy.square().sum(1).clamp(min=torch.finfo(energy.dtype).tiny)).mean()


def effective_heads__nan_when_silent(contributions):
    """When nothing is added at all you divide 0 by 0. Keep the denominator away from 0: the answer is 0."""
    energy = contributions.square().sum((0, 2, 3))
    return energy.sum().square() / energy.square().sum()


def effective_heads__denominator_raised(contributions):
    """You add a number to the denominator that outweighs small energies: the same heads, a hundred times fainter, count as fewer. Keep the denominator away from 0 with a clamp far below any energy."""
    energy = contributions.square().sum((0, 2, 3))
    return energy.sum().square() / (energy.square().sum() + 1e-3)


def effective_heads__top_not_squared(contributions):
    """You forget to square the sum on top, so your number changes when all contributions are scaled alike."""
    energy = contributions.square().sum((0, 2, 3))
    return energy.sum() / energy.square().sum().clamp(min=torch.finfo(energy.dtype).tiny)


def effective_heads__share_of_heads(contributions):
    """You divide by H and return a share. The number of heads is asked for: between 1 and H."""
    energy = contributions.square().sum((0, 2, 3))
    return energy.sum().square() / energy.square().sum().clamp(min=torch.finfo(energy.dtype).tiny) / len(energy)


def effective_heads__features_counted(contributions):
    """You sum over the heads and keep the features: your number says how many features carry the output. The heads are axis 1."""
    energy = contributions.square().sum((0, 1, 2))
    return energy.sum().square() / energy.square().sum().clamp(min=torch.finfo(energy.dtype).tiny)


def effective_heads__signs_cancel(contributions):
    """You add a head's values up before you square: positive and negative ones cancel. Square first, then sum."""
    energy = contributions.sum((0, 2, 3)).square()
    return energy.sum().square() / energy.square().sum().clamp(min=torch.finfo(energy.dtype).tiny)


def effective_heads__right__shares(contributions):
    energy = contributions.pow(2).sum(dim=(0, 2, 3))
    if energy.sum() == 0:
        return energy.sum()
    share = energy / energy.sum()
    return 1 / share.square().sum()


def effective_heads__right__einsum(contributions):
    energy = torch.einsum("bhtd,bhtd->h", contributions, contributions)
    bottom = energy @ energy
    return energy.sum() ** 2 / bottom if bottom > 0 else bottom


def effective_heads__right__loops(contributions):
    energy = [float((contributions[:, h] ** 2).sum()) for h in range(contributions.size(1))]
    bottom = sum(e * e for e in energy)
    return torch.tensor(sum(energy) ** 2 / bottom if bottom else 0.0)


# --- train_heads -----------------------------------------------------------------------------------------------------


def train_heads__penalty_rewarded(scores, target, strength, steps=100, rate=20.0):
    """You subtract the penalty from the loss, which rewards heads for being alike. Add it."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task - strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__strength_ignored(scores, target, strength, steps=100, rate=20.0):
    """The penalty makes no difference to you: the heads come out the same whatever the strength. It is missing from the loss, or it sees one head at a time: it wants (B, H, T, S), here a batch of one, weights[None]."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__strength_always_one(scores, target, strength, steps=100, rate=20.0):
    """You add the penalty at full strength, whatever `strength` says."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task + diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__task_forgotten(scores, target, strength, steps=100, rate=20.0):
    """You train on the penalty alone: with strength 0 nothing moves. The task loss comes first, the penalty is added to it."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__uphill(scores, target, strength, steps=100, rate=20.0):
    """You add the gradient: the loss goes up. Descent subtracts it."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores + rate * gradient).detach()
    return scores


def train_heads__every_head_alone(scores, target, strength, steps=100, rate=20.0):
    """You ask every head alone to match the target. The task wants their average to match: the heads may share the work."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__heads_summed(scores, target, strength, steps=100, rate=20.0):
    """You compare the sum of the heads with the target, but their rows then sum to H and can never match. Take their mean."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.sum(0) - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__penalty_on_scores(scores, target, strength, steps=100, rate=20.0):
    """You give the penalty the raw scores. It compares what the heads read: give it the weights, after the softmax."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(scores[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__number_of_keys_forgotten(scores, target, strength, steps=100, rate=20.0):
    """You forget to multiply the task loss by the number of keys, so the penalty weighs S times more than it should."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean()
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__multiplied_by_queries(scores, target, strength, steps=100, rate=20.0):
    """You multiply the task loss by the number of queries T. It is the number of keys S, the last axis."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(0)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__softmax_of_the_mean(scores, target, strength, steps=100, rate=20.0):
    """You average the scores of the heads and take one softmax. Each head has a softmax of its own; the average of their weights is compared."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (scores.mean(0).softmax(-1) - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__one_step_more(scores, target, strength, steps=100, rate=20.0):
    """You take one step more than asked: with steps=0 the weights must stay as they were made."""
    scores = scores.detach().clone()
    for _ in range(steps + 1):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores


def train_heads__weights_returned(scores, target, strength, steps=100, rate=20.0):
    """You return the weights. The trained scores are asked for."""
    scores = scores.detach().clone()
    for _ in range(steps):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        loss = task + strength * diversity_penalty(weights[None])
        (gradient,) = torch.autograd.grad(loss, scores)
        scores = (scores - rate * gradient).detach()
    return scores.softmax(-1)


def train_heads__still_in_the_graph(scores, target, strength, steps=100, rate=20.0):
    """Your scores are right but still want gradients: whoever computes with them drags the training along. Return them detached."""
    scores = scores.detach().clone().requires_grad_()
    optimiser = torch.optim.SGD([scores], lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        (task + strength * diversity_penalty(weights[None])).backward()
        optimiser.step()
    return scores


def train_heads__gradients_pile_up(scores, target, strength, steps=100, rate=20.0):
    """Your gradients pile up: .backward() adds to .grad, and you never set it back to zero between steps."""
    scores = scores.detach().clone().requires_grad_()
    for _ in range(steps):
        weights = scores.softmax(-1)
        task = (weights.mean(0) - target).square().mean() * target.size(-1)
        (task + strength * diversity_penalty(weights[None])).backward()
        with torch.no_grad():
            scores -= rate * scores.grad
    return scores.detach()


def train_heads__right__sgd(scores, target, strength, steps=100, rate=20.0):
    trained = torch.nn.Parameter(scores.detach().clone())
    optimiser = torch.optim.SGD([trained], lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        weights = F.softmax(trained, dim=-1)
        loss = target.shape[-1] * F.mse_loss(weights.mean(dim=0), target)
        (loss + strength * diversity_penalty(weights.unsqueeze(0))).backward()
        optimiser.step()
    return trained.detach()


def train_heads__right__grad_by_hand(scores, target, strength, steps=100, rate=20.0):
    scores = scores.clone()
    for _ in range(steps):
        leaf = scores.detach().requires_grad_(True)
        weights = torch.softmax(leaf, -1)
        error = ((weights.mean(0) - target) ** 2).sum() / target.size(0)
        (error + strength * diversity_penalty(weights[None])).backward()
        scores = leaf.detach() - rate * leaf.grad
    return scores.detach()


def train_heads__right__functional(scores, target, strength, steps=100, rate=20.0):
    def loss(s):
        weights = s.softmax(-1)
        task = target.size(-1) * (weights.mean(0) - target).pow(2).mean()
        return task + strength * diversity_penalty(weights[None])

    scores = scores.detach()
    for _ in range(steps):
        scores = scores - rate * torch.func.grad(loss)(scores)
    return scores.detach()


# --- check_split -----------------------------------------------------------------------------------------------------


def check_split__never_calls_it(split):
    """Your test never calls the function it is given, so it says the same of every split."""
    x = torch.randn(2, 5, 12)
    assert torch.stack(x.chunk(3, -1), 1).shape == (2, 3, 5, 4)


def check_split__looks_only_at_shapes(split):
    """Your test looks only at shapes, and the colleague's bug keeps them. Look at the numbers."""
    assert split(torch.randn(2, 5, 12), 3).shape == (2, 3, 5, 4)


def check_split__looks_only_at_the_sum(split):
    """You test that no number is lost, not where it went: every way of shuffling them slips through."""
    x = torch.randn(2, 5, 12)
    assert abs(float(split(x, 3).sum() - x.sum())) < 1e-3


def check_split__looks_only_at_the_first_head(split):
    """You look at head 0 only, so a split that gives head 0 to everybody slips through. Check all heads."""
    x = torch.randn(2, 5, 12)
    assert torch.equal(split(x, 3)[:, 0], x[..., :4])


def check_split__one_token(split):
    """You test a sequence of one token, where a bare reshape is right and no token can be mistaken for another. Use several."""
    x = torch.randn(2, 1, 12)
    assert torch.equal(split(x, 3), torch.stack(x.chunk(3, -1), 1))


def check_split__batch_of_one(split):
    """You test a batch of one, where nobody can mix up sequences. Use at least two."""
    x = torch.randn(1, 5, 12)
    assert torch.equal(split(x, 3), torch.stack(x.chunk(3, -1), 1))


def check_split__heads_of_width_one(split):
    """Your heads have a single feature each, so the order of features within a head cannot go wrong. Use a K of at least two."""
    x = torch.randn(2, 5, 3)
    assert torch.equal(split(x, 3), torch.stack(x.chunk(3, -1), 1))


def check_split__returns_false(split):
    """Your test returns True or False instead of raising: nobody looks at what a test returns. Use assert."""
    x = torch.randn(2, 5, 12)
    heads = split(x, 3)
    return heads.shape == (2, 3, 5, 4) and torch.equal(heads, torch.stack(x.chunk(3, -1), 1))


def check_split__rejects_everything(split):
    """Your test fails a right split as well: it expects head h to take every H-th feature. A head holds K consecutive ones."""
    x = torch.randn(2, 5, 12)
    expected = torch.stack([x[..., h::3] for h in range(3)], 1)
    assert torch.equal(split(x, 3), expected)


def check_split__right__joined_again(split):
    x = torch.randn(3, 4, 10)
    heads = split(x, 5)
    assert tuple(heads.shape) == (3, 5, 4, 2), "expected (B, H, T, K)"
    assert torch.equal(torch.cat([heads[:, h] for h in range(5)], -1), x), "side by side the heads are not x"


def check_split__right__counting(split):
    x = torch.arange(2 * 3 * 8).reshape(2, 3, 8).float()
    heads = split(x, 2)
    for b in range(2):
        for h in range(2):
            for t in range(3):
                for k in range(4):
                    assert float(heads[b, h, t, k]) == b * 24 + t * 8 + h * 4 + k, f"wrong number at {(b, h, t, k)}"


def check_split__right__one_token_moved(split):
    for n_heads in (2, 3):
        x = torch.randn(2, 4, 6)
        heads = split(x, n_heads)
        assert heads.shape == (2, n_heads, 4, 6 // n_heads), "wrong shape"
        assert torch.equal(heads.transpose(1, 2).reshape(2, 4, 6), x), "a token's features are not where they belong"
