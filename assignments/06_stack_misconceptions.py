"""Wrong versions of the pieces of assignment 06 that learners really write, and right ones in other styles.

Named piece__what_is_wrong; the docstring is what a tutor would say. The grader replays a learner's calls on them.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from encoder.packing import Packing
from encoder.stack import Encoder

# --- padding_mask --------------------------------------------------------------------------------------------------


def padding_mask__inverted(lengths, size=None):
    """Your mask is True on the padding. In this course True means "may attend": real keys are True."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None, None, :]


def padding_mask__one_too_many(lengths, size=None):
    """Your mask lets one padded key through: a sequence of n tokens has the positions 0 … n − 1, so position n is padding. Compare with <, not <=."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None, None, :]


def padding_mask__last_token_hidden(lengths, size=None):
    """Your mask hides the last real token as well: count from 0, not from 1."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(1, size + 1, device=lengths.device) < lengths[:, None])[:, None, None, :]


def padding_mask__two_axes(lengths, size=None):
    """Your mask has the shape (B, S). Beside scores of shape (B, H, T, S) that is read as (T, S): give it the axes (B, 1, 1, S)."""
    size = int(lengths.max()) if size is None else size
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def padding_mask__hides_queries(lengths, size=None):
    """Your mask has the shape (B, 1, S, 1): it stops padded tokens from asking, but real tokens still read them. The last axis holds the keys."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, :, None]


def padding_mask__queries_and_keys(lengths, size=None):
    """Your mask is (B, 1, S, S) and hides padded queries as well as keys. Nobody reads a padded query, so hiding keys is enough, and S times smaller."""
    size = int(lengths.max()) if size is None else size
    real = torch.arange(size, device=lengths.device) < lengths[:, None]
    return (real[:, :, None] & real[:, None, :])[:, None]


def padding_mask__batch_on_the_wrong_axis(lengths, size=None):
    """Your mask is (1, B, 1, S): its sequences lie on the axis of the heads. The batch comes first: (B, 1, 1, S)."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[None, :, None, :]


def padding_mask__padding_in_front(lengths, size=None):
    """Your mask expects the padding in front. Here sentences are filled up at the end: real tokens come first in their row."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) >= size - lengths[:, None])[:, None, None, :]


def padding_mask__size_ignored(lengths, size=None):
    """Your mask is as wide as the longest sentence even where `size` asks for more. The batch may be padded further than that."""
    return (torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None])[:, None, None, :]


def padding_mask__additive(lengths, size=None):
    """Your mask holds 0 and −∞, to be added to scores. Here masks are boolean, True where a key may be read."""
    size = int(lengths.max()) if size is None else size
    real = (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]
    return torch.zeros(real.shape, device=lengths.device).masked_fill(~real, -torch.inf)


def padding_mask__zeros_and_ones(lengths, size=None):
    """Your mask holds the numbers 0 and 1. A mask is torch.bool: a comparison gives one by itself."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size, device=lengths.device) < lengths[:, None]).long()[:, None, None, :]


def padding_mask__left_on_the_host(lengths, size=None):
    """Your mask does not follow its lengths to their device: either torch.arange is made without device=lengths.device, or lengths.max() is read back to the host though size was given."""
    size = int(lengths.max()) if size is None else size
    return (torch.arange(size) < lengths[:, None])[:, None, None, :]


def padding_mask__right__loop(lengths, size=None):
    size = max(lengths.tolist()) if size is None else size
    return torch.stack([lengths > s for s in range(size)], dim=1).reshape(len(lengths), 1, 1, size)


def padding_mask__right__gather_from_triangle(lengths, size=None):
    size = int(lengths.amax()) if size is None else size
    triangle = torch.ones(size, size, dtype=torch.bool, device=lengths.device).tril()
    return triangle[lengths - 1].unsqueeze(1).unsqueeze(1)


def padding_mask__right__counting(lengths, size=None):
    size = int(lengths.max()) if size is None else size
    ones = torch.ones(lengths.numel(), size, dtype=torch.long, device=lengths.device)
    return (ones.cumsum(1) <= lengths.view(-1, 1)).view(-1, 1, 1, size)


# --- Encoder -------------------------------------------------------------------------------------------------------


class Encoder__mask_in_the_first_layer_only(Encoder):
    """Only your first layer gets the mask: from the second on, padding is read after all. Every layer needs it."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for i, layer in enumerate(self.layers):
            x = layer(x, mask, bias) if i == 0 or isinstance(mask, Packing) else layer(x)
        return self.norm(x)


class Encoder__mask_forgotten(Encoder):
    """The mask never reaches your layers: real tokens read the padding."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = layer(x, mask if isinstance(mask, Packing) else None, bias)
        return self.norm(x)


class Encoder__bias_forgotten(Encoder):
    """The bias never reaches your layers: relative positions would have no effect."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Encoder__bias_in_the_first_layer_only(Encoder):
    """Only your first layer gets the bias. Every layer needs it."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x, bias = layer(x, mask, bias), None
        return self.norm(x)


class Encoder__mask_lost_beside_the_bias(Encoder):
    """Your mask works alone and your bias works alone, but with both only the bias acts. Every layer gets both."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        mask = mask if bias is None else None
        for layer in self.layers:
            x = layer(x, mask, bias)
        return self.norm(x)


class Encoder__first_layer_repeated(Encoder):
    """You run the first layer L times. Each layer has weights of its own; the others get no gradient."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for _ in self.layers:
            x = self.layers[0](x, mask, bias)
        return self.norm(x)


class Encoder__every_layer_reads_the_input(Encoder):
    """Every one of your layers reads the input again, so only the last one counts. Each layer reads the output of the one before."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            out = layer(x, mask, bias)
        return self.norm(out)


class Encoder__last_layer_left_out(Encoder):
    """Your loop stops one layer early: the last layer is never run."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for i in range(len(self.layers) - 1):
            x = self.layers[i](x, mask, bias)
        return self.norm(x)


class Encoder__last_norm_forgotten(Encoder):
    """You leave out `self.norm`. Pre-LN layers add to x without ever normalising it, so the stack must do it once at the end."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = layer(x, mask, bias)
        return x


class Encoder__norm_after_each_layer(Encoder):
    """You apply `self.norm` after every layer. It belongs after the last one, once; inside, each layer has norms of its own."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = self.norm(layer(x, mask, bias))
        return x


class Encoder__norm_first_of_all(Encoder):
    """You normalise before the layers instead of after them."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask, bias)
        return x


class Encoder__second_residual(Encoder):
    """You add x around each layer once more. The residual connections are inside the layer already."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = x + layer(x, mask, bias)
        return self.norm(x)


class Encoder__layers_in_reverse(Encoder):
    """Your layers run from last to first. Weights from elsewhere would be used in the wrong order."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in reversed(self.layers):
            x = layer(x, mask, bias)
        return self.norm(x)


class Encoder__detached_between_layers(Encoder):
    """Your output is right, but x is detached between layers: no gradient passes to the earlier ones."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        if lengths is not None:
            return self.forward_packed(x, lengths, mask, bias)
        for layer in self.layers:
            x = layer(x.detach(), mask, bias)
        return self.norm(x)


class Encoder__lengths_ignored(Encoder):
    """With `lengths` your encoder does what it does without: padding is read, and its output is not zero."""

    def forward(self, x, mask=None, bias=None, lengths=None):
        for layer in self.layers:
            x = layer(x, mask, bias)
        return self.norm(x)


class Encoder__never_unpacked(Encoder):
    """You return the packed tokens, (1, N, D). Unpack at the end: callers expect (B, T, D)."""

    def forward_packed(self, x, lengths, mask, bias):
        packing = Packing(lengths, x.size(1), x.device)
        return self.forward(packing.pack(x), packing)


class Encoder__normalised_after_unpacking(Encoder):
    """You unpack before the last norm, which turns the zeros on padding into its bias. Normalise the packed tokens, then unpack."""

    def forward_packed(self, x, lengths, mask, bias):
        packing = Packing(lengths, x.size(1), x.device)
        tokens = packing.pack(x)
        for layer in self.layers:
            tokens = layer(tokens, packing)
        return self.norm(packing.unpack(tokens))


class Encoder__normalised_twice(Encoder):
    """With `lengths` the last norm is applied twice: self.forward has done it already."""

    def forward_packed(self, x, lengths, mask, bias):
        packing = Packing(lengths, x.size(1), x.device)
        return packing.unpack(self.norm(self.forward(packing.pack(x), packing)))


class Encoder__packed_without_the_packing(Encoder):
    """You pack the tokens but do not give the packing to the layers as their mask: all sentences of the batch read one another."""

    def forward_packed(self, x, lengths, mask, bias):
        packing = Packing(lengths, x.size(1), x.device)
        return packing.unpack(self.forward(packing.pack(x)))


class Encoder__padding_not_zero(Encoder):
    """With `lengths` you mask the padding as keys but still compute it as queries: it costs as much as real tokens, and comes out as something instead of zero."""

    def forward_packed(self, x, lengths, mask, bias):
        lengths = torch.as_tensor(lengths, device=x.device)
        real = torch.arange(x.size(1), device=x.device) < lengths[:, None]
        return self.forward(x, real[:, None, None, :])


class Encoder__right__indexed_loop(Encoder):
    def forward(self, x, mask=None, bias=None, lengths=None):
        packing = None if lengths is None else Packing(lengths, x.size(1), x.device)
        if packing is not None:
            x, mask = packing.pack(x), packing
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask=mask, bias=bias)
        x = self.norm(x)
        return x if packing is None else packing.unpack(x)


class Encoder__right__masked_then_zeroed(Encoder):
    def forward_packed(self, x, lengths, mask, bias):
        lengths = torch.as_tensor(lengths, device=x.device)
        real = torch.arange(x.size(1), device=x.device) < lengths[:, None]
        return self.forward(x, real[:, None, None, :]).masked_fill(~real[..., None], 0.0)


class Encoder__right__one_sequence_at_a_time(Encoder):
    def forward_packed(self, x, lengths, mask, bias):
        out = []
        for row, n in zip(x, [int(n) for n in lengths]):
            encoded = self.forward(row[None, :n])[0]
            out.append(F.pad(encoded, (0, 0, 0, x.size(1) - n)))
        return torch.stack(out)


# --- layer_flops ---------------------------------------------------------------------------------------------------


def layer_flops__multiplications_only(n, d_model, d_ff):
    """You count multiplications only, half of the operations: each term of a dot product is also added."""
    return 4 * n * d_model**2, 2 * n**2 * d_model, 2 * n * d_model * d_ff


def layer_flops__output_projection_forgotten(n, d_model, d_ff):
    """You count three projections, for queries, keys and values. The heads are mixed by a fourth one at the end."""
    return 3 * 2 * n * d_model**2, 4 * n**2 * d_model, 4 * n * d_model * d_ff


def layer_flops__one_projection(n, d_model, d_ff):
    """You count a single projection. Queries, keys, values and the output each have their own."""
    return 2 * n * d_model**2, 4 * n**2 * d_model, 4 * n * d_model * d_ff


def layer_flops__scores_only(n, d_model, d_ff):
    """You count the scores but not the averages: multiplying the n × n weights by the values costs as much again."""
    return 8 * n * d_model**2, 2 * n**2 * d_model, 4 * n * d_model * d_ff


def layer_flops__half_of_the_feedforward(n, d_model, d_ff):
    """You count the way up to F but not the way down again."""
    return 8 * n * d_model**2, 4 * n**2 * d_model, 2 * n * d_model * d_ff


def layer_flops__four_times_the_width(n, d_model, d_ff):
    """You take F = 4D for granted. It often is, but d_ff says what it is here."""
    return 8 * n * d_model**2, 4 * n**2 * d_model, 16 * n * d_model**2


def layer_flops__attention_linear_in_n(n, d_model, d_ff):
    """Your attention grows like n. Every query meets every key: n² pairs, of width D each."""
    return 8 * n * d_model**2, 4 * n * d_model**2, 4 * n * d_model * d_ff


def layer_flops__everything_quadratic(n, d_model, d_ff):
    """Your projections and feed-forward grow like n². They work on one token at a time; only attention works on pairs."""
    return 8 * n**2 * d_model, 4 * n**2 * d_model, 4 * n**2 * d_ff


def layer_flops__feedforward_before_attention(n, d_model, d_ff):
    """Your second and third number are swapped: (projections, attention, feed-forward), in this order."""
    return 8 * n * d_model**2, 4 * n * d_model * d_ff, 4 * n**2 * d_model


def layer_flops__one_number(n, d_model, d_ff):
    """You return the sum. Return the three parts, (projections, attention, feed-forward): the point is how differently they grow."""
    return 8 * n * d_model**2 + 4 * n**2 * d_model + 4 * n * d_model * d_ff


def layer_flops__right__from_products(n, d_model, d_ff):
    products = {
        "projections": [(n, d_model, d_model)] * 4,
        "attention": [(n, d_model, n), (n, n, d_model)],
        "feedforward": [(n, d_model, d_ff), (n, d_ff, d_model)],
    }
    return tuple(sum(2 * a * b * c for a, b, c in part) for part in products.values())


def layer_flops__right__terse(n, d_model, d_ff):
    return 8 * n * d_model * d_model, 4 * n * n * d_model, 4 * n * d_model * d_ff


def layer_flops__right__counter(n, d_model, d_ff):
    def product(a, b, c):
        with FlopCounterMode(display=False) as counter:
            torch.empty(a, b, device="meta") @ torch.empty(b, c, device="meta")
        return counter.get_total_flops()

    attention = product(n, d_model, n) + product(n, n, d_model)
    return 4 * product(n, d_model, d_model), attention, product(n, d_model, d_ff) + product(n, d_ff, d_model)


# --- encode_fast ---------------------------------------------------------------------------------------------------


def encode_fast__float32_all_the_way(encoder, x, lengths):
    """Your result equals the float32 one to the last bits: nothing ran in bfloat16. Run the encoder inside torch.autocast."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad():
        encoded = encoder(x, lengths=lengths)
    encoder.train(was_training)
    return encoded


def encode_fast__weights_converted(encoder, x, lengths):
    """You run the encoder in bfloat16 throughout, sums and norms included; and if it is the caller's own and not a copy, its weights have lost 16 bits each, for good. Autocast leaves the weights alone and rounds only the products."""
    was_training = encoder.training
    encoder.eval().bfloat16()
    with torch.no_grad():
        encoded = encoder(x.bfloat16(), lengths=lengths)
    encoder.float().train(was_training)
    return encoded.float()


def encode_fast__dropout_alive(encoder, x, lengths):
    """Two calls on the same input differ: dropout is still on. Put the encoder into eval mode while it runs."""
    with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16):
        return encoder(x, lengths=lengths).float()


def encode_fast__returns_bfloat16(encoder, x, lengths):
    """You return bfloat16. Callers want to go on in float32: convert at the end."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16):
        encoded = encoder(x, lengths=lengths)
    encoder.train(was_training)
    return encoded.bfloat16()


def encode_fast__graph_kept(encoder, x, lengths):
    """Your result still hangs on the graph: every activation stays in memory for a backward pass that never comes. Use torch.no_grad()."""
    was_training = encoder.training
    encoder.eval()
    with torch.autocast(x.device.type, torch.bfloat16):
        encoded = encoder(x, lengths=lengths)
    encoder.train(was_training)
    return encoded.float()


def encode_fast__lengths_dropped(encoder, x, lengths):
    """The lengths never reach the encoder: real tokens read padding, and work is done for nothing."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16):
        encoded = encoder(x)
    encoder.train(was_training)
    return encoded.float()


def encode_fast__padded_not_packed(encoder, x, lengths):
    """You hide the padding with a mask but still compute it: its output is not zero. Give the encoder lengths instead."""
    was_training = encoder.training
    encoder.eval()
    real = (torch.arange(x.size(1), device=x.device) < lengths[:, None])[:, None, None, :]
    with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16):
        encoded = encoder(x, real)
    encoder.train(was_training)
    return encoded.float()


def encode_fast__only_the_input_cast(encoder, x, lengths):
    """You turn the input into bfloat16 while the weights are float32: a product of the two has no type. Autocast converts both, inside each product."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad():
        encoded = encoder(x.bfloat16(), lengths=lengths)
    encoder.train(was_training)
    return encoded.float()


def encode_fast__half_precision(encoder, x, lengths):
    """You use float16, which ends at 65,504: larger features become infinite. bfloat16 has fewer digits and the range of float32."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad(), torch.autocast(x.device.type, torch.float16):
        encoded = encoder(x, lengths=lengths)
    encoder.train(was_training)
    return encoded.float()


def encode_fast__result_rounded(encoder, x, lengths):
    """You compute in float32 and round the result to bfloat16: less exact, and not faster. The products inside have to run in bfloat16."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad():
        encoded = encoder(x, lengths=lengths).bfloat16()
    encoder.train(was_training)
    return encoded.float()


def encode_fast__input_rounded(encoder, x, lengths):
    """You round the input to bfloat16 and then compute in float32: less exact, and not faster. The products inside have to run in bfloat16."""
    was_training = encoder.training
    encoder.eval()
    with torch.no_grad():
        encoded = encoder(x.bfloat16().float(), lengths=lengths)
    encoder.train(was_training)
    return encoded.float()


def encode_fast__right__inference_mode(encoder, x, lengths):
    mode = encoder.training
    encoder.train(False)
    with torch.inference_mode():
        with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16):
            y = encoder(x, None, None, lengths)
    encoder.train(mode)
    return y.clone().to(torch.float32)


def encode_fast__right__on_a_copy(encoder, x, lengths):
    copied = copy.deepcopy(encoder).eval()
    with torch.autocast(x.device.type, torch.bfloat16):
        return copied(x, lengths=lengths).float().detach()


def encode_fast__right__modes_restored_one_by_one(encoder, x, lengths):
    modes = [(part, part.training) for part in encoder.modules()]
    try:
        encoder.eval()
        with torch.no_grad(), torch.amp.autocast(x.device.type, dtype=torch.bfloat16):
            return encoder(x, lengths=lengths).to(x.dtype)
    finally:
        for part, mode in modes:
            part.training = mode


# --- stays_on_device -----------------------------------------------------------------------------------------------


def stays_on_device__inputs_not_moved(function, *inputs):
    """You move the module but not its inputs, so even a right module fails. Both have to be on the meta device."""
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("meta")
    try:
        return function(*inputs).device.type == "meta"
    except RuntimeError:
        return False


def stays_on_device__module_not_moved(function, *inputs):
    """You move the inputs but not the module's weights, so even a right module fails."""
    moved = [x.to("meta") if isinstance(x, Tensor) else x for x in inputs]
    try:
        return function(*moved).device.type == "meta"
    except RuntimeError:
        return False


def stays_on_device__error_escapes(function, *inputs):
    """You let the RuntimeError out. An error on the meta device is the finding: answer False."""
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("meta")
    moved = [x.to("meta") if isinstance(x, Tensor) else x for x in inputs]
    return function(*moved).device.type == "meta"


def stays_on_device__only_whether_it_runs(function, *inputs):
    """You ask only whether it runs. torch.ones(3) runs anywhere, and its result lies on the CPU: look where the output is."""
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("meta")
    moved = [x.to("meta") if isinstance(x, Tensor) else x for x in inputs]
    try:
        function(*moved)
        return True
    except RuntimeError:
        return False


def stays_on_device__name_instead_of_answer(function, *inputs):
    """You return the name of the device. The question is yes or no: True or False."""
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("meta")
    moved = [x.to("meta") if isinstance(x, Tensor) else x for x in inputs]
    try:
        return function(*moved).device.type
    except RuntimeError:
        return "cpu"


def stays_on_device__inverted(function, *inputs):
    """Your answers are the wrong way round: True means that it stays where its inputs are."""
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("meta")
    moved = [x.to("meta") if isinstance(x, Tensor) else x for x in inputs]
    try:
        return function(*moved).device.type != "meta"
    except RuntimeError:
        return True


def stays_on_device__numbers_moved_too(function, *inputs):
    """You call .to on every input, also on numbers, which have none. Only tensors lie on a device."""
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to("meta")
    moved = [x.to("meta") for x in inputs]
    try:
        return function(*moved).device.type == "meta"
    except RuntimeError:
        return False


def stays_on_device__same_device_on_the_cpu(function, *inputs):
    """You try it on the CPU, where everything lies by default: a tensor made in the wrong place is not noticed there. Try it on the meta device."""
    try:
        return function(*inputs).device.type == "cpu"
    except (RuntimeError, AttributeError):
        return False


def stays_on_device__right__moved_by_a_map(function, *inputs):
    target = torch.device("meta")
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to(target)
    try:
        out = function(*map(lambda x: x.to(target) if torch.is_tensor(x) else x, inputs))
    except Exception:
        return False
    return bool(out.is_meta)


def stays_on_device__right__functional_call(function, *inputs):
    moved = [torch.empty_like(x, device="meta") if isinstance(x, Tensor) else x for x in inputs]
    try:
        if isinstance(function, nn.Module):
            weights = {name: torch.empty_like(p, device="meta") for name, p in function.state_dict().items()}
            out = torch.func.functional_call(function, weights, tuple(moved))
        else:
            out = function(*moved)
        return out.device == torch.device("meta")
    except RuntimeError:
        return False


def stays_on_device__right__to_empty(function, *inputs):
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).to_empty(device="meta")
    arguments = []
    for x in inputs:
        arguments.append(x.to(device="meta") if isinstance(x, Tensor) else x)
    with torch.no_grad():
        try:
            where = function(*arguments).device
        except (RuntimeError, NotImplementedError):
            where = torch.device("cpu")
    return where.type == "meta"


# --- check_padding -------------------------------------------------------------------------------------------------


def check_padding__looks_only_at_shapes(encode):
    """Your test looks only at the shape, which every leak keeps. Change what stands in the padding, and look at the real tokens."""
    out = encode(torch.randn(2, 5, 8), torch.tensor([5, 3]))
    assert out.shape == (2, 5, 8)


def check_padding__no_padding_in_it(encode):
    """All sequences in your test are full, so there is no padding to leak. Give them different lengths."""
    x, lengths = torch.randn(2, 5, 8), torch.tensor([5, 5])
    together = encode(x, lengths)
    assert (encode(x[:1], lengths[:1])[0] - together[0]).abs().max() <= 1e-4


def check_padding__only_changes_the_padding(encode):
    """You change the padding, and nothing else. An encoder that hides the last real token, or mixes the sentences of a batch, passes your test."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    real = torch.arange(6) < lengths[:, None]
    other = torch.where(real[..., None], x, torch.randn(3, 6, 8))
    assert (encode(other, lengths) - encode(x, lengths))[real].abs().max() <= 1e-4, "padding leaks"


def check_padding__only_compares_with_alone(encode):
    """You compare alone with batched, which misses whatever goes wrong in both: an encoder that hides the last real token does so alone as well."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    together = encode(x, lengths)
    for b, n in enumerate(lengths.tolist()):
        alone = encode(x[b : b + 1, :n], lengths[b : b + 1])
        assert (alone[0] - together[b, :n]).abs().max() <= 1e-4, "differs from alone"


def check_padding__demands_zeros(encode):
    """You demand zeros at the padded places of the output. A right encoder may leave anything there: nobody reads it."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    real = torch.arange(6) < lengths[:, None]
    out = encode(x, lengths)
    assert (out[~real] == 0).all(), "padding must be zero"
    assert (encode(x * real[..., None], lengths) - out)[real].abs().max() <= 1e-4


def check_padding__compares_padding_too(encode):
    """You compare the whole output, padded places included. What an encoder leaves there may change with the padding, and that is no fault."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    real = torch.arange(6) < lengths[:, None]
    other = torch.where(real[..., None], x, torch.randn(3, 6, 8))
    assert torch.allclose(encode(other, lengths), encode(x, lengths), atol=1e-4), "padding leaks"


def check_padding__exact_equality(encode):
    """You ask for equality to the last bit between alone and batched. Sums in another order round differently: allow 1e-4."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    together = encode(x, lengths)
    for b, n in enumerate(lengths.tolist()):
        assert torch.equal(encode(x[b : b + 1, :n], lengths[b : b + 1])[0] + 1e-9, together[b, :n])


def check_padding__returns_false(encode):
    """Your test returns False instead of raising: nobody looks at what a test returns. Use assert."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    real = torch.arange(6) < lengths[:, None]
    other = torch.where(real[..., None], x, torch.randn(3, 6, 8))
    return bool((encode(other, lengths) - encode(x, lengths))[real].abs().max() <= 1e-4)


def check_padding__never_calls_it(encode):
    """Your test never calls the encoder it is given, so it says the same of every one."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    real = torch.arange(6) < lengths[:, None]
    assert x[real].shape == (12, 8)


def check_padding__zeros_as_padding(encode):
    """You fill the padding with zeros both times, so there is nothing to leak differently. Put other numbers there."""
    x, lengths = torch.randn(3, 6, 8), torch.tensor([2, 6, 4])
    real = torch.arange(6) < lengths[:, None]
    x = x * real[..., None]
    other = torch.cat((x[:, :5], torch.where(real[:, 5:, None], x[:, 5:], 0.0)), 1)
    assert (encode(other, lengths) - encode(x, lengths))[real].abs().max() <= 1e-4


def check_padding__right__every_single_token(encode):
    x, lengths = torch.randn(3, 5, 8), torch.tensor([3, 5, 2])
    before = encode(x, lengths)
    for b in range(3):
        for s in range(5):
            other = x.clone()
            other[b, s] = 3 * torch.randn(8)
            moved = (encode(other, lengths) - before).abs().amax(-1) > 1e-4
            for c in range(3):
                for t in range(int(lengths[c])):
                    assert bool(moved[c, t]) == (b == c and s < int(lengths[b])), (
                        f"token {t} of row {c} and token {s} of {b}"
                    )
    alone = encode(x[:1, :3], lengths[:1])
    assert (alone[0] - before[0, :3]).abs().max() <= 1e-4, "depends on its neighbours"


def check_padding__right__gradients_by_difference(encode):
    lengths = torch.tensor([1, 4, 6, 3])
    x = torch.randn(4, 6, 8)
    out = encode(x, lengths)
    for b, n in enumerate(lengths.tolist()):
        short = encode(x[b : b + 1, :n], lengths[b : b + 1])[0]
        assert torch.allclose(short, out[b, :n], atol=1e-4), "alone and together differ"
        noisy = x.clone()
        noisy[b, n:] = 5 * torch.randn(6 - n, 8)
        noisy[torch.arange(4) != b] = torch.randn(3, 6, 8)
        assert torch.allclose(encode(noisy, lengths)[b, :n], out[b, :n], atol=1e-4), "reads padding or neighbours"
        if n > 1:
            last = x.clone()
            last[b, n - 1] = 3 * torch.randn(8)
            assert not torch.allclose(encode(last, lengths)[b, 0], out[b, 0], atol=1e-4), "last token unread"


def check_padding__right__torch_testing(encode):
    for n in (2, 4, 7):
        x, lengths = torch.randn(2, 7, 8), torch.tensor([n, 5])
        out = encode(x, lengths)
        torch.testing.assert_close(encode(x[:1, :n], lengths[:1])[0], out[0, :n], atol=1e-4, rtol=0)
        for s in range(7):
            changed = x.clone()
            changed[0, s] += 3 * torch.randn(8)
            difference = (encode(changed, lengths) - out)[0, :n].abs().max().item()
            assert (difference > 1e-4) == (s < n), f"token {s} of a sequence of {n}"
            if 0 < s < n:
                assert (encode(changed, lengths) - out)[0, 0].abs().max() > 1e-4, f"token 0 does not read token {s}"
