"""Wrong versions of the pieces of assignment 13 that learners really write, and right ones in other styles.

Named piece__what_is_wrong; the docstring is what a tutor would say. The grader replays a learner's calls on them.
"""

import math
import re

import torch
from torch.nn import functional as F

# --- bert_name -----------------------------------------------------------------------------------------------------


def bert_name__attention_output_taken_for_the_feedforward(name):
    """The output projection of attention became a feed-forward map: `output.dense` also occurs inside `attention.output.dense`. Rename the longer name first."""
    name = name.removeprefix("bert.")
    renames = {
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__query_and_key_swapped(name):
    """Queries and keys stand in each other's place. They have the same shape, so everything loads, and only the values say that it is wrong."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "k_proj.",
        "self.key.": "q_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__key_and_value_swapped(name):
    """Keys and values stand in each other's place. They have the same shape, so everything loads, and only the values say that it is wrong."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "v_proj.",
        "self.value.": "k_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__norms_swapped(name):
    """The two LayerNorms of a layer are changed over: norm1 follows attention, so it is `attention.output.LayerNorm`; `output.LayerNorm` is norm2."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm2.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm1.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__up_and_down_swapped(name):
    """The maps of the feed-forward are changed over: `intermediate.dense` goes up to the wide middle, `output.dense` comes down."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.down.",
        "output.dense.": "feedforward.up.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__layers_not_renamed(name):
    """You left `encoder.layer.` as it is. Our list of layers is called `layers`."""
    name = name.removeprefix("bert.")
    renames = {
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__prefix_kept(name):
    """You keep the prefix `bert.` of checkpoints that have one: no weight of ours begins so. Drop it before anything else."""
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__segments_and_positions_swapped(name):
    """`token_type_embeddings` are the segments, two rows, and `position_embeddings` the positions, 512 rows; you changed them over."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "segment.",
        "token_type_embeddings.": "position.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__first_norm_forgotten(name):
    """The LayerNorm of the embeddings keeps its old name. It is `embeddings.norm` in our model."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__self_kept(name):
    """Your projections are called attention.self.q_proj and so on. Our attention has them directly: the part `self.` must go."""
    name = name.removeprefix("bert.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "self.q_proj.",
        "self.key.": "self.k_proj.",
        "self.value.": "self.v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__pooler_renamed(name):
    """You renamed the pooler. `pooler.dense` has the same name in both models: leave it alone."""
    name = name.removeprefix("bert.")
    name = name.replace("pooler.dense.", "pooler.")
    renames = {
        "encoder.layer.": "encoder.layers.",
        "word_embeddings.": "token.",
        "position_embeddings.": "position.",
        "token_type_embeddings.": "segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "self.query.": "q_proj.",
        "self.key.": "k_proj.",
        "self.value.": "v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__one_digit_layers(name):
    """Your pattern for the layer's number takes one digit, so layers 10 and 11 of a BERT-base keep their old names. Write \\d+, or do not look at the number at all."""
    name = re.sub(r"^encoder\.layer\.(\d)\.", r"encoder.layers.\1.", name.removeprefix("bert."))
    renames = {
        "word_embeddings": "token",
        "position_embeddings": "position",
        "token_type_embeddings": "segment",
        "embeddings.LayerNorm": "embeddings.norm",
        "self.query": "q_proj",
        "self.key": "k_proj",
        "self.value": "v_proj",
        "attention.output.dense": "attention.out_proj",
        "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "feedforward.up",
        "output.dense": "feedforward.down",
        "output.LayerNorm": "norm2",
    }
    for theirs, ours in renames.items():
        name = name.replace(theirs, ours)
    return name


def bert_name__letters_stripped(name):
    """You strip the *letters* b, e, r, t and dots: lstrip takes a set of characters, so `encoder` loses its e. removeprefix takes a word."""
    name = name.lstrip("bert.").replace("encoder.layer.", "encoder.layers.")
    for a, b in {
        "embeddings.word_embeddings.": "embeddings.token.",
        "embeddings.position_embeddings.": "embeddings.position.",
        "embeddings.token_type_embeddings.": "embeddings.segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "attention.self.query.": "attention.q_proj.",
        "attention.self.key.": "attention.k_proj.",
        "attention.self.value.": "attention.v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }.items():
        name = name.replace(a, b)
    return name


def bert_name__norm1_inside_attention(name):
    """You put norm1 inside the attention, `attention.norm1`. In our layer it stands beside it: the whole `attention.output.LayerNorm` becomes norm1."""
    name = name.removeprefix("bert.").replace("encoder.layer.", "encoder.layers.")
    for a, b in {
        "embeddings.word_embeddings.": "embeddings.token.",
        "embeddings.position_embeddings.": "embeddings.position.",
        "embeddings.token_type_embeddings.": "embeddings.segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "attention.self.query.": "attention.q_proj.",
        "attention.self.key.": "attention.k_proj.",
        "attention.self.value.": "attention.v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "attention.norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }.items():
        name = name.replace(a, b)
    return name


def bert_name__ending_dropped(name):
    """You drop the ending. `.weight` and `.bias` stay: they tell the two tensors of a map apart."""
    name = name.removeprefix("bert.").replace("encoder.layer.", "encoder.layers.")
    for a, b in {
        "embeddings.word_embeddings.": "embeddings.token.",
        "embeddings.position_embeddings.": "embeddings.position.",
        "embeddings.token_type_embeddings.": "embeddings.segment.",
        "embeddings.LayerNorm.": "embeddings.norm.",
        "attention.self.query.": "attention.q_proj.",
        "attention.self.key.": "attention.k_proj.",
        "attention.self.value.": "attention.v_proj.",
        "attention.output.dense.": "attention.out_proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "feedforward.up.",
        "output.dense.": "feedforward.down.",
        "output.LayerNorm.": "norm2.",
    }.items():
        name = name.replace(a, b)
    return name.rsplit(".", 1)[0]


def bert_name__right__patterns(name):
    patterns = [
        (r"^bert\.", ""),
        (r"^encoder\.layer\b", "encoder.layers"),
        (r"embeddings\.word_embeddings", "embeddings.token"),
        (r"embeddings\.position_embeddings", "embeddings.position"),
        (r"embeddings\.token_type_embeddings", "embeddings.segment"),
        (r"embeddings\.LayerNorm", "embeddings.norm"),
        (r"attention\.self\.(q|k|v)[a-z]+", r"attention.\1_proj"),
        (r"attention\.output\.dense", "attention.out_proj"),
        (r"attention\.output\.LayerNorm", "norm1"),
        (r"intermediate\.dense", "feedforward.up"),
        (r"(?<!attention)\.output\.dense", ".feedforward.down"),
        (r"(?<!attention)\.output\.LayerNorm", ".norm2"),
    ]
    for theirs, ours in patterns:
        name = re.sub(theirs, ours, name)
    return name


def bert_name__right__by_parts(name):
    parts = [part for part in name.split(".") if part != "bert"]
    if parts[0] == "embeddings":
        tables = {"word_embeddings": "token", "position_embeddings": "position", "token_type_embeddings": "segment"}
        return ".".join(["embeddings", tables.get(parts[1], "norm"), parts[2]])
    if parts[0] == "pooler":
        return ".".join(parts)
    match parts[3:-1]:
        case ["attention", "self", what]:
            place = f"attention.{what[0]}_proj"
        case ["attention", "output", what]:
            place = "attention.out_proj" if what == "dense" else "norm1"
        case ["intermediate", _]:
            place = "feedforward.up"
        case ["output", what]:
            place = "feedforward.down" if what == "dense" else "norm2"
    return f"encoder.layers.{parts[2]}.{place}.{parts[-1]}"


def bert_name__right__table_of_endings(name):
    name = name[5:] if name.startswith("bert.") else name
    stem, kind = name.rsplit(".", 1)
    layer = re.match(r"encoder\.layer\.(\d+)\.(.*)", stem)
    if layer is None:
        top = {
            "embeddings.word_embeddings": "embeddings.token",
            "embeddings.position_embeddings": "embeddings.position",
            "embeddings.token_type_embeddings": "embeddings.segment",
            "embeddings.LayerNorm": "embeddings.norm",
        }
        return f"{top.get(stem, stem)}.{kind}"
    inner = {
        "attention.self.query": "attention.q_proj",
        "attention.self.key": "attention.k_proj",
        "attention.self.value": "attention.v_proj",
        "attention.output.dense": "attention.out_proj",
        "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "feedforward.up",
        "output.dense": "feedforward.down",
        "output.LayerNorm": "norm2",
    }
    return f"encoder.layers.{layer[1]}.{inner[layer[2]]}.{kind}"


# --- sentence_embedding --------------------------------------------------------------------------------------------


def sentence_embedding__padding_included(hidden, mask):
    """You average over padding, too. Leave it out by the mask: a short sentence in a long batch is mostly padding."""
    return F.normalize(hidden.mean(1), dim=-1)


def sentence_embedding__first_token(hidden, mask):
    """You take the first token, [CLS], as BERT's pooler does. MiniLM was trained with the mean of all real tokens."""
    return F.normalize(hidden[:, 0], dim=-1)


def sentence_embedding__not_normalised(hidden, mask):
    """You return the plain mean. Bring it to length 1, so that a dot product of two sentences is their cosine."""
    real = mask[:, :, None].to(hidden.dtype)
    return (hidden * real).sum(1) / real.sum(1).clamp(min=1)


def sentence_embedding__largest_value(hidden, mask):
    """You take the largest value in each direction. Here the tokens are averaged."""
    return F.normalize(hidden.masked_fill(~mask[:, :, None], -1e9).amax(1), dim=-1)


def sentence_embedding__mask_inverted(hidden, mask):
    """You average the padding and leave out the sentence: the mask is True on real tokens."""
    real = (~mask)[:, :, None].to(hidden.dtype)
    return F.normalize((hidden * real).sum(1) / real.sum(1).clamp(min=1), dim=-1)


def sentence_embedding__tokens_normalised_first(hidden, mask):
    """You bring every token to length 1 before averaging. Average the tokens as they are, then normalise once."""
    real = mask[:, :, None].to(hidden.dtype)
    mean = (F.normalize(hidden, dim=-1) * real).sum(1) / real.sum(1).clamp(min=1)
    return F.normalize(mean, dim=-1)


def sentence_embedding__normalised_over_the_batch(hidden, mask):
    """You normalise along the batch, so a vector depends on its neighbours. Each sentence has a length of its own: the last axis."""
    real = mask[:, :, None].to(hidden.dtype)
    return F.normalize((hidden * real).sum(1) / real.sum(1).clamp(min=1), dim=0)


def sentence_embedding__absolute_values(hidden, mask):
    """You divide by the sum of absolute values. Length means the root of the sum of squares."""
    real = mask[:, :, None].to(hidden.dtype)
    return F.normalize((hidden * real).sum(1) / real.sum(1).clamp(min=1), p=1, dim=-1)


def sentence_embedding__empty_is_nan(hidden, mask):
    """An empty sentence becomes nan in your code: 0 / 0. Divide by at least 1, and zeros remain zeros."""
    real = mask[:, :, None].to(hidden.dtype)
    return F.normalize((hidden * real).sum(1) / real.sum(1), dim=-1)


def sentence_embedding__last_token(hidden, mask):
    """You take the last real token, as one would of a recurrent network. Every token of an encoder has read the whole sentence: average them all."""
    last = mask.sum(1).clamp(min=1) - 1
    return F.normalize(hidden[torch.arange(len(hidden)), last], dim=-1)


def sentence_embedding__one_dtype(hidden, mask):
    """Your result is float32 whatever came in: the mask was turned to float32, or hidden was. Convert the mask to the dtype of hidden."""
    real = mask[:, :, None].float()
    return F.normalize((hidden.float() * real).sum(1) / real.sum(1).clamp(min=1), dim=-1)


def sentence_embedding__special_tokens_left_out(hidden, mask):
    """You leave [CLS] and [SEP] out. MiniLM's mean runs over all real tokens, those two included."""
    keep = mask.clone()
    keep[:, 0] = False
    real = keep[:, :, None].to(hidden.dtype)
    return F.normalize((hidden * real).sum(1) / real.sum(1).clamp(min=1), dim=-1)


def sentence_embedding__at_most_one(hidden, mask):
    """You divide by the length only when it is above 1. Every vector is brought to length 1, short ones are made longer."""
    real = mask[:, :, None].to(hidden.dtype)
    mean = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
    return mean / mean.norm(dim=-1, keepdim=True).clamp(min=1)


def sentence_embedding__added_epsilon(hidden, mask):
    """Your vectors are a little shorter than 1, since you add a number to the length. Divide by the length itself, or by a tiny number where that is 0 (F.normalize does so)."""
    real = mask[:, :, None].to(hidden.dtype)
    mean = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
    return mean / (mean.norm(dim=-1, keepdim=True) + 1e-3)


def sentence_embedding__gradient_nan(hidden, mask):
    """Your values are right, but an empty sentence makes the gradients nan: 0 / 0 was computed and then replaced. Keep it from being computed: F.normalize divides by at least a tiny number."""
    real = mask[:, :, None].to(hidden.dtype)
    mean = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
    return torch.nan_to_num(mean / mean.norm(dim=-1, keepdim=True))


def sentence_embedding__whole_batch_length(hidden, mask):
    """You divide by the length of the whole batch, taken as one long vector. Each sentence has a length of its own: dim=-1."""
    real = mask[:, :, None].to(hidden.dtype)
    mean = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
    return mean / mean.norm().clamp(min=1e-12)


def sentence_embedding__right__sum_is_enough(hidden, mask):
    return F.normalize(hidden.masked_fill(~mask[..., None], 0.0).sum(1), dim=-1)  # the length is removed anyway


def sentence_embedding__right__loop(hidden, mask):
    rows = []
    for states, real in zip(hidden, mask):
        mean = states[real].mean(0) if real.any() else 0 * states[0]
        rows.append(mean / mean.norm().clamp(min=1e-12) if real.any() else mean)
    return torch.stack(rows)


def sentence_embedding__right__einsum(hidden, mask):
    share = mask.to(hidden.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    mean = torch.einsum("btd,bt->bd", hidden, share)
    return torch.nn.functional.normalize(mean, p=2.0, dim=1)


# --- search --------------------------------------------------------------------------------------------------------


def search__dot_products(queries, collection, k):
    """You rank by dot products, so a long vector wins whatever it says. Normalise both sides: a cosine does not know lengths."""
    return (queries @ collection.T).topk(k, dim=-1)[:2]


def search__queries_not_normalised(queries, collection, k):
    """You normalised the collection but not the queries: the order is right, the scores are no cosines."""
    return tuple((queries @ F.normalize(collection, dim=-1).T).topk(k, dim=-1))


def search__collection_not_normalised(queries, collection, k):
    """You normalised the queries but not the collection, so its long vectors win."""
    return tuple((F.normalize(queries, dim=-1) @ collection.T).topk(k, dim=-1))


def search__worst_first(queries, collection, k):
    """You return the least similar texts. A large cosine is a small angle: take the largest."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    return tuple(cosine.topk(k, dim=-1, largest=False))


def search__not_sorted(queries, collection, k):
    """You found the right k, but not in order: the best comes first."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    scores, rows = cosine.topk(k, dim=-1)
    return scores.flip(-1), rows.flip(-1)


def search__rows_first(queries, collection, k):
    """You return (rows, scores). The order asked for is (scores, rows)."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    scores, rows = cosine.topk(k, dim=-1)
    return rows, scores


def search__along_the_queries(queries, collection, k):
    """You look for the best queries of each text. Every query wants its best texts: topk along the last axis of (N, M)."""
    cosine = F.normalize(collection, dim=-1) @ F.normalize(queries, dim=-1).T
    return tuple(cosine.topk(min(k, len(queries)), dim=-1))


def search__normalised_by_columns(queries, collection, k):
    """You normalise over the vectors (dim=0), not each vector. The length of a vector is taken along its own entries, the last axis."""
    cosine = F.normalize(queries, dim=0) @ F.normalize(collection, dim=0).T
    return tuple(cosine.topk(k, dim=-1))


def search__distances(queries, collection, k):
    """You rank by Euclidean distance, which does know lengths, and return distances. Asked for are cosines, the largest first."""
    return tuple(torch.cdist(queries, collection).topk(k, dim=-1, largest=False))


def search__absolute_cosine(queries, collection, k):
    """You take absolute values: a text that says the opposite (cosine −1) would count as equal. Keep the sign."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    return tuple(cosine.abs().topk(k, dim=-1))


def search__softmax_of_scores(queries, collection, k):
    """Your scores went through a softmax: the order is right, the numbers are no cosines."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    scores, rows = cosine.softmax(-1).topk(k, dim=-1)
    return scores, rows


def search__itself_left_out(queries, collection, k):
    """You drop the best hit as if it were the query itself. The queries need not be in the collection: keep it."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    order = cosine.sort(dim=-1, descending=True)
    k = min(k, collection.size(0) - 1)
    return order.values[:, 1 : k + 1], order.indices[:, 1 : k + 1]


def search__only_the_best(queries, collection, k):
    """You return the best one only. The k best are asked for."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    best = cosine.max(-1, keepdim=True)
    return best.values, best.indices


def search__angles(queries, collection, k):
    """You return angles. Asked for are the cosines themselves, the largest first."""
    cosine = F.normalize(queries, dim=-1) @ F.normalize(collection, dim=-1).T
    scores, rows = cosine.topk(k, dim=-1)
    return scores.clamp(-1, 1).acos(), rows


def search__divided_by_squares(queries, collection, k):
    """You divide by the squared lengths. A cosine is q · c / (‖q‖ ‖c‖), without squares."""
    cosine = queries @ collection.T / (queries.square().sum(-1)[:, None] * collection.square().sum(-1))
    scores, rows = cosine.topk(k, dim=-1)
    return scores, rows


def search__right__sorted(queries, collection, k):
    cosine = (queries @ collection.T) / (queries.norm(dim=1)[:, None] * collection.norm(dim=1))
    scores, rows = torch.sort(cosine, dim=1, descending=True)
    return scores[:, :k], rows[:, :k]


def search__right__cosine_similarity(queries, collection, k):
    cosine = F.cosine_similarity(queries[:, None], collection[None], dim=-1)
    rows = cosine.argsort(dim=-1, descending=True)[:, :k]
    return cosine.gather(1, rows), rows


def search__right__loop(queries, collection, k):
    scores, rows = [], []
    for query in queries:
        cosines = [float(query @ text / (query.norm() * text.norm())) for text in collection]
        best = sorted(range(len(cosines)), key=cosines.__getitem__, reverse=True)[:k]
        rows.append(best)
        scores.append([cosines[j] for j in best])
    return torch.tensor(scores), torch.tensor(rows)


# --- first_divergence ----------------------------------------------------------------------------------------------


def first_divergence__last_one(ours, reference, tolerance=1e-5, mask=None):
    """You name the last difference. By then everything is wrong; the bug is next to the first: return as soon as one is found."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    found = None
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            found = name, error
    return found


def first_divergence__largest(ours, reference, tolerance=1e-5, mask=None):
    """You name the largest difference. Errors grow on their way up: the largest is far from its cause. The first is asked for."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    errors = {}
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        errors[name] = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
    worst = max(errors, key=errors.get)
    return None if errors[worst] <= tolerance else (worst, errors[worst])


def first_divergence__mean_difference(ours, reference, tolerance=1e-5, mask=None):
    """You compare the mean difference. One wrong number among thousands disappears in a mean; take the largest."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().mean()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__nan_passes(ours, reference, tolerance=1e-5, mask=None):
    """A nan passes your comparison: nan > tolerance is False. Ask `not error <= tolerance` instead."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if error > tolerance:
            return name, error
    return None


def first_divergence__mask_ignored(ours, reference, tolerance=1e-5, mask=None):
    """You never use the mask, so whatever stands on padding counts as a difference. Compare real tokens only."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__order_of_the_reference(ours, reference, tolerance=1e-5, mask=None):
    """You walk through the reference's order. The first part that ran wrong is asked for in the order of `ours`."""
    shared = [name for name in reference if name in ours]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__signed(ours, reference, tolerance=1e-5, mask=None):
    """You take the largest signed difference: values that are too small go unnoticed. Take absolute values."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((b - a).max()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__only_the_name(ours, reference, tolerance=1e-5, mask=None):
    """You return the name alone. Return (name, difference): how far it is off tells rounding from a bug."""
    for name in [name for name in ours if name in reference]:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        if a.shape != b.shape or not float((a - b).abs().max()) <= tolerance:
            return name
    return None


def first_divergence__every_name_expected(ours, reference, tolerance=1e-5, mask=None):
    """You expect every name of yours in the reference. The two models may have parts that the other lacks: compare the names that both have."""
    for name, a in ours.items():
        b = reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__shapes_not_compared(ours, reference, tolerance=1e-5, mask=None):
    """Your subtraction stops with an error when two shapes do not fit. That is a difference like any other, and the largest: return (name, inf)."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max())
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__nothing_in_common_is_fine(ours, reference, tolerance=1e-5, mask=None):
    """Two records without a common name get None from you, "all agree", although nothing was compared. Raise ValueError."""
    for name in [name for name in ours if name in reference]:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__tolerance_fixed(ours, reference, tolerance=1e-5, mask=None):
    """You wrote the tolerance into the code. Use the argument: bfloat16 needs another one than float32."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("no name in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        if not error <= 1e-5:
            return name, error
    return None


def first_divergence__relative(ours, reference, tolerance=1e-5, mask=None):
    """You compare relative differences. The largest absolute one is asked for, and it is what you return."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        if a.shape != b.shape:
            return name, math.inf
        error = float(((a - b).abs() / b.abs().clamp(min=1e-12)).max())
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__nan_equals_nan(ours, reference, tolerance=1e-5, mask=None):
    """Where both are nan you call them equal. nan never agrees, not even with nan: two broken models are not two right ones."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        if a.shape != b.shape:
            return name, math.inf
        if not torch.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True):
            return name, float((a - b).abs().max())
    return None


def first_divergence__mask_on_everything(ours, reference, tolerance=1e-5, mask=None):
    """You apply the mask to every tensor. One of another shape, such as the pooled vector, has no (B, T) in front: compare it as it is."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None:
            a, b = a[mask], b[mask]
        if a.shape != b.shape:
            return name, math.inf
        error = float((a - b).abs().max())
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__masked_tensors_only(ours, reference, tolerance=1e-5, mask=None):
    """With a mask you skip every tensor that it does not fit. They are compared, too, as they are."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None:
            if a.shape[:2] != mask.shape:
                continue
            a, b = a[mask], b[mask]
        if a.shape != b.shape:
            return name, math.inf
        error = float((a - b).abs().max())
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__mask_inverted(ours, reference, tolerance=1e-5, mask=None):
    """You compare the padding and leave the real tokens out: the mask is True on real tokens."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[~mask], b[~mask]
        if a.shape != b.shape:
            return name, math.inf
        error = float((a - b).abs().max())
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__alphabetical(ours, reference, tolerance=1e-5, mask=None):
    """You walk through the names in alphabetical order: a set or `sorted` forgets the order in which the parts ran. Follow the order of `ours`."""
    shared = sorted(set(ours) & set(reference))
    if not shared:
        raise ValueError("nothing in common")
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        if a.shape != b.shape:
            return name, math.inf
        error = float((a - b).abs().max())
        if not error <= tolerance:
            return name, error
    return None


def first_divergence__all_of_them(ours, reference, tolerance=1e-5, mask=None):
    """You return every difference. Only the first is asked for: the rest follow from it."""
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing in common")
    found = []
    for name in shared:
        a, b = ours[name], reference[name]
        if mask is not None and a.shape[:2] == b.shape[:2] == mask.shape:
            a, b = a[mask], b[mask]
        error = math.inf if a.shape != b.shape else float((a - b).abs().max())
        if not error <= tolerance:
            found.append((name, error))
    return found or None


def first_divergence__right__shapes_asked_first(ours, reference, tolerance=1e-5, mask=None):
    names = [name for name in ours.keys() if name in reference.keys()]
    if len(names) == 0:
        raise ValueError("the two records share no name")
    for name in names:
        a, b = ours[name], reference[name]
        if a.shape != b.shape:
            return name, float("inf")
        difference = (a - b).abs()
        if mask is not None and a.dim() >= 2 and a.shape[:2] == mask.shape:
            difference = difference[mask]
        largest = difference.max().item()
        if largest != largest or largest > tolerance:
            return name, largest
    return None


def first_divergence__right__helper_inside(ours, reference, tolerance=1e-5, mask=None):
    def distance(a, b):
        if a.shape != b.shape:
            return float("inf")
        gap = (a - b).abs()
        if mask is not None and gap.shape[:2] == mask.shape:
            gap = gap[mask]
        return float(gap.max())

    if not ours.keys() & reference.keys():
        raise ValueError("expected two records with names in common")
    gaps = ((name, distance(a, reference[name])) for name, a in ours.items() if name in reference)
    return next(((name, gap) for name, gap in gaps if not gap <= tolerance), None)


def first_divergence__right__allclose(ours, reference, tolerance=1e-5, mask=None):
    shared = [name for name in ours if name in reference]
    if not shared:
        raise ValueError("nothing to compare")
    for name in shared:
        a, b = ours[name], reference[name]
        if a.shape != b.shape:
            return (name, float("inf"))
        if mask is not None and tuple(a.shape[:2]) == tuple(mask.shape):
            a, b = a[mask], b[mask]
        if not torch.allclose(a, b, rtol=0, atol=tolerance):
            return (name, (a - b).abs().max().item())
    return None
