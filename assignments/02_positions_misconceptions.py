"""Assignment 02: wrong versions that learners really write, each with what a tutor would say, and right ones in other styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from encoder.checks import check_even, check_width
from encoder.positions import LearnedPositions, RelativeBias, relative_buckets, rotary_angles

# --- rotary_angles -------------------------------------------------------------------------------------------------


def rotary_angles__exponent_half(length, width, base=10000.0, device=None):
    """Your exponents are i/width where 2i/width is asked: the wheels slow down half as fast as they should."""
    check_even(width)
    speed = base ** (-torch.arange(width // 2, device=device) / width)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__exponent_doubled(length, width, base=10000.0, device=None):
    """Your exponents are 4i/width, twice too large. Either 2i is doubled again (torch.arange(0, width, 2) already holds it), or it is divided by width / 2 instead of width."""
    check_even(width)
    speed = base ** (-2 * torch.arange(0, width, 2, device=device) / width)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__positions_from_one(length, width, base=10000.0, device=None):
    """Your first row is not zero: you count positions from 1. The first token stands at position 0."""
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device) / width)
    return torch.arange(1, length + 1, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__ever_faster(length, width, base=10000.0, device=None):
    """Your wheels turn faster and faster, up to base: the sign of the exponent is missing. Each wheel is slower than the last."""
    check_even(width)
    speed = base ** (torch.arange(0, width, 2, device=device) / width)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__transposed(length, width, base=10000.0, device=None):
    """You return one row a wheel. The result has one row a position and one column a wheel: (T, width / 2)."""
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device) / width)
    return speed[:, None] * torch.arange(length, device=device, dtype=torch.float32)


def rotary_angles__one_wheel_a_feature(length, width, base=10000.0, device=None):
    """You give every feature a wheel of its own. Features come in pairs, sine and cosine of one wheel: there are width / 2 angles."""
    check_even(width)
    speed = base ** (-torch.arange(width, device=device) / width)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__base_ignored(length, width, base=10000.0, device=None):
    """Your angles are the same for every base: 10000 is written into the formula. Use the argument."""
    check_even(width)
    speed = 10000.0 ** (-torch.arange(0, width, 2, device=device) / width)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__speeds_evenly_spaced(length, width, base=10000.0, device=None):
    """Your speeds fall evenly from 1 to 1/base, so all wheels but the last are fast. They must fall by a constant factor: put the index into the exponent."""
    check_even(width)
    speed = torch.linspace(1.0, 1.0 / base, width // 2, device=device)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__full_turns(length, width, base=10000.0, device=None):
    """You multiply by 2π. The angles are in radians already: the first wheel turns by 1 a token, not by a full turn, after which it would stand where it began."""
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device) / width)
    return 2 * math.pi * torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__half_precision(length, width, base=10000.0, device=None):
    """You count positions in half precision, where 2049 is the same number as 2048: far out, neighbours get one angle. Count in float32."""
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device) / width)
    return torch.arange(length, device=device).half().float()[:, None] * speed


def rotary_angles__odd_width_accepted(length, width, base=10000.0, device=None):
    """You accept an odd width, and one feature is left without a partner. Refuse it with check_even(width)."""
    speed = base ** (-torch.arange(0, width, 2, device=device) / width)
    return torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed


def rotary_angles__last_wheel_too_slow(length, width, base=10000.0, device=None):
    """Your speeds run from 1 down to 1/base with both ends included. The exponent is −2i/width, and the last i is width/2 − 1: the slowest wheel is a little faster than 1/base."""
    check_even(width)
    speed = torch.logspace(0, -math.log10(base), width // 2, device=device)
    return torch.arange(length, device=device)[:, None] * speed


def rotary_angles__double_precision(length, width, base=10000.0, device=None):
    """Your angles are float64. float32 is asked for: exact enough for any position, and what the rest of the model computes in."""
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device, dtype=torch.float64) / width)
    return torch.arange(length, device=device)[:, None] * speed


def rotary_angles__wrapped(length, width, base=10000.0, device=None):
    """You take full turns off the angles. Sine and cosine do not notice, but whoever reads the angles does: the first wheel has turned by t radians after t tokens, however many turns that is."""
    check_even(width)
    speed = base ** (-torch.arange(0, width, 2, device=device) / width)
    return (torch.arange(length, device=device)[:, None] * speed) % (2 * math.pi)


def rotary_angles__right__loops(length, width, base=10000.0, device=None):
    if width % 2:
        raise ValueError(f"an even width is needed, got {width}")
    rows = [[t / base ** (2 * i / width) for i in range(width // 2)] for t in range(length)]
    return torch.tensor(rows, dtype=torch.float32, device=device)


def rotary_angles__right__exp_of_log(length, width, base=10000.0, device=None):
    check_even(width)
    speed = torch.exp(torch.arange(width // 2, device=device) * (-2 * math.log(base) / width))
    return torch.outer(torch.arange(length, device=device).float(), speed)


def rotary_angles__right__numpy(length, width, base=10000.0, device=None):
    check_even(width)
    angles = np.arange(length)[:, None] / np.power(base, np.arange(0, width, 2) / width)
    return torch.tensor(angles, dtype=torch.float32, device=device)


# --- sinusoidal_positions ------------------------------------------------------------------------------------------


def sinusoidal_positions__concatenated(length, d_model, base=10000.0, device=None, dtype=None):
    """Your sines come first and your cosines after them. Asked for are pairs side by side: sine and cosine of wheel 0, then of wheel 1, and so on."""
    angles = rotary_angles(length, d_model, base, device)
    return torch.cat((angles.sin(), angles.cos()), -1).to(dtype)


def sinusoidal_positions__cosine_first(length, d_model, base=10000.0, device=None, dtype=None):
    """In your pairs the cosine comes first. Even features hold the sine, odd ones the cosine."""
    angles = rotary_angles(length, d_model, base, device)
    return torch.stack((angles.cos(), angles.sin()), -1).flatten(-2).to(dtype)


def sinusoidal_positions__sines_only(length, d_model, base=10000.0, device=None, dtype=None):
    """You write the sine twice. Without the cosine sin² + cos² = 1 is lost, and with it the equal length of all rows."""
    angles = rotary_angles(length, d_model, base, device)
    return angles.sin().repeat_interleave(2, -1).to(dtype)


def sinusoidal_positions__a_wheel_a_feature(length, d_model, base=10000.0, device=None, dtype=None):
    """Your sine and cosine of one pair turn at different speeds: the exponent of an odd feature 2i + 1 is 2i/D, the same as its partner's, not (2i + 1)/D."""
    check_even(d_model)
    speed = base ** (-torch.arange(d_model, device=device) / d_model)
    angles = torch.arange(length, device=device)[:, None] * speed
    return torch.where(torch.arange(d_model, device=device) % 2 == 0, angles.sin(), angles.cos()).to(dtype)


def sinusoidal_positions__exponent_doubled(length, d_model, base=10000.0, device=None, dtype=None):
    """Your exponents are 4i/D instead of 2i/D: the step of two is counted twice, and the wheels slow down too fast."""
    angles = rotary_angles(length, d_model, base**2, device)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)


def sinusoidal_positions__base_ignored(length, d_model, base=10000.0, device=None, dtype=None):
    """The base you are given never reaches the angles: your table is the same for every base."""
    angles = rotary_angles(length, d_model, device=device)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)


def sinusoidal_positions__positions_from_one(length, d_model, base=10000.0, device=None, dtype=None):
    """Your table starts at position 1. Row 0 is the place where no wheel has turned: 0, 1, 0, 1, …"""
    angles = rotary_angles(length + 1, d_model, base, device)[1:]
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)


def sinusoidal_positions__dtype_ignored(length, d_model, base=10000.0, device=None, dtype=None):
    """You return float32 whatever dtype is asked for. Compute in float32, then convert the result with .to(dtype)."""
    angles = rotary_angles(length, d_model, base, device)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def sinusoidal_positions__rounded_before_the_sine(length, d_model, base=10000.0, device=None, dtype=None):
    """You convert the angles and not the result: in bfloat16 an angle of 257 is 256, and its sine is anyone's guess. Take sine and cosine in float32, then convert."""
    angles = rotary_angles(length, d_model, base, device).to(dtype)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def sinusoidal_positions__unit_length(length, d_model, base=10000.0, device=None, dtype=None):
    """You scale every row to length 1. The formula leaves it at √(D/2), so that a position weighs about as much as a word vector of that width."""
    angles = rotary_angles(length, d_model, base, device)
    return F.normalize(torch.stack((angles.sin(), angles.cos()), -1).flatten(-2), dim=-1).to(dtype)


def sinusoidal_positions__batch_axis_added(length, d_model, base=10000.0, device=None, dtype=None):
    """You return (1, T, D). Return (T, D): it broadcasts over any batch by itself."""
    angles = rotary_angles(length, d_model, base, device)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[None].to(dtype)


def sinusoidal_positions__right__slices(length, d_model, base=10000.0, device=None, dtype=None):
    table = torch.zeros(length, d_model, device=device)
    where = torch.arange(length, device=device).unsqueeze(1)
    speed = torch.exp(torch.arange(0, d_model, 2, device=device) * (-math.log(base) / d_model))
    table[:, 0::2] = torch.sin(where * speed)
    table[:, 1::2] = torch.cos(where * speed)
    return table if dtype is None else table.to(dtype)


def sinusoidal_positions__right__loops(length, d_model, base=10000.0, device=None, dtype=None):
    rows = []
    for t in range(length):
        rows.append([(math.cos if j % 2 else math.sin)(t / base ** (2 * (j // 2) / d_model)) for j in range(d_model)])
    return torch.tensor(rows, dtype=dtype or torch.float32, device=device)


def sinusoidal_positions__right__complex(length, d_model, base=10000.0, device=None, dtype=None):
    angles = rotary_angles(length, d_model, base, device)
    points = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return points.flip(-1).reshape(length, d_model).to(dtype or torch.float32)


# --- LearnedPositions ----------------------------------------------------------------------------------------------


class LearnedPositions__last_rows(LearnedPositions):
    """You take the last T rows of the table. Token t takes row t, however short the sequence."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return x + self.weight[-x.size(1) :]


class LearnedPositions__input_lost(LearnedPositions):
    """You return the positions alone: x is gone. Add them to x."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return self.weight[: x.size(1)].expand_as(x)


class LearnedPositions__multiplied(LearnedPositions):
    """You multiply x by the positions. They are added."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return x * self.weight[: x.size(1)]


class LearnedPositions__from_one(LearnedPositions):
    """You start at row 1 of the table and leave row 0 unused. Token 0 takes row 0."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return x + self.weight[1 : x.size(1) + 1]


class LearnedPositions__wraps_around(LearnedPositions):
    """Beyond the end of the table you begin again at row 0, so two tokens share a position and nobody hears of it. Raise a ValueError."""

    def forward(self, x):
        return x + self.weight[torch.arange(x.size(1), device=x.device) % len(self.weight)]


class LearnedPositions__cut_off(LearnedPositions):
    """You drop the tokens beyond the end of the table in silence. Raise a ValueError: losing input is never a good surprise."""

    def forward(self, x):
        x = x[:, : len(self.weight)]
        return x + self.weight[: x.size(1)]


class LearnedPositions__cryptic_error(LearnedPositions):
    """Beyond the end of the table you fail with PyTorch's message about sizes that do not match. Check the length and raise a ValueError that says how many positions there are."""

    def forward(self, x):
        return x + self.weight[: x.size(1)]


class LearnedPositions__whole_table(LearnedPositions):
    """You add the whole table, which fits only sequences that are exactly max_length long. Take its first T rows."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return x + self.weight


class LearnedPositions__detached(LearnedPositions):
    """Your values are right, but the table gets no gradient: it would stay as random as it was made."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return x + self.weight.detach()[: x.size(1)]


class LearnedPositions__by_sequence(LearnedPositions):
    """All tokens of a sequence get the same row: you count sequences of the batch (axis 0) where you should count tokens (axis 1)."""

    def forward(self, x):
        if x.size(1) > len(self.weight):
            raise ValueError(f"positions were made for up to {len(self.weight)} tokens, got {x.size(1)}")
        return x + self.weight[: x.size(0)][:, None]


class LearnedPositions__changed_in_place(LearnedPositions):
    """You add to x in place, with += or .add_(): the caller's tensor changes under their hands, and a leaf that wants a gradient refuses. Write x + …, which makes a new tensor."""

    def forward(self, x):
        if x.size(1) > self.weight.size(0):
            raise ValueError("too long")
        x += self.weight[: x.size(1)]
        return x


class LearnedPositions__last_row_unreachable(LearnedPositions):
    """You refuse a sequence of exactly max_length tokens. It has a row for each: only longer ones are too long."""

    def forward(self, x):
        if x.size(1) >= self.weight.size(0):
            raise ValueError("too long")
        return x + self.weight[: x.size(1)]


class LearnedPositions__asserted(LearnedPositions):
    """You use assert where a ValueError is asked for: an assertion is a note to yourself, and python -O leaves it out. Raise."""

    def forward(self, x):
        assert x.size(1) <= self.weight.size(0), "too long"
        return x + self.weight[: x.size(1)]


class LearnedPositions__right__embedding(LearnedPositions):
    def forward(self, x):
        if x.shape[1] > self.weight.shape[0]:
            raise ValueError(f"at most {self.weight.shape[0]} tokens, got {x.shape[1]}")
        return x + F.embedding(torch.arange(x.shape[1], device=x.device), self.weight)


class LearnedPositions__right__loop(LearnedPositions):
    def forward(self, x):
        if x.shape[1] > self.weight.shape[0]:
            raise ValueError(f"at most {self.weight.shape[0]} tokens, got {x.shape[1]}")
        return torch.stack([x[:, t] + self.weight[t] for t in range(x.shape[1])], dim=1)


class LearnedPositions__right__narrow(LearnedPositions):
    def forward(self, x):
        check_width(x, self.weight.size(1))
        length = x.size(1)
        if length > self.weight.size(0):
            raise ValueError(f"at most {self.weight.size(0)} tokens, got {length}")
        return torch.add(x, self.weight.narrow(0, 0, length).unsqueeze(0))


# --- relative_buckets ----------------------------------------------------------------------------------------------


def relative_buckets__sides_swapped(distance, n_buckets=32, max_distance=128):
    """You put keys before the query into the upper half of the buckets. The upper half is for keys after it, s − t > 0."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = (near + (steps * (n - near)).long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance < 0)


def relative_buckets__side_forgotten(distance, n_buckets=32, max_distance=128):
    """Three words before and three words after fall into one bucket: you look only at |s − t|, and half of the table is never read."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = (near + (steps * (n - near)).long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far)


def relative_buckets__cut_off(distance, n_buckets=32, max_distance=128):
    """You give each distance a bucket until there are none left, and put all the rest into the last one. Beyond `near`, buckets must widen up to max_distance."""
    n = n_buckets // 2
    return distance.abs().clamp(max=n - 1) + n * (distance > 0)


def relative_buckets__all_by_logarithm(distance, n_buckets=32, max_distance=128):
    """You use the logarithm from the start, so distances 2, 3 and 4 share buckets. The first n/2 distances have a bucket each; only then buckets widen."""
    n = n_buckets // 2
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=1).float()) / math.log(max_distance)
    return (steps * n).long().clamp(max=n - 1) + n * (distance > 0)


def relative_buckets__zero_counts_as_after(distance, n_buckets=32, max_distance=128):
    """You put distance 0 on the side of the keys after the query. A token itself belongs to the lower half: s ≤ t."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = (near + (steps * (n - near)).long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance >= 0)


def relative_buckets__rounded(distance, n_buckets=32, max_distance=128):
    """You round to the nearest bucket. Asked for is the floor: a bucket begins where its number is reached."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = (near + (steps * (n - near)).round().long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance > 0)


def relative_buckets__rounded_up(distance, n_buckets=32, max_distance=128):
    """You round up. Asked for is the floor: a bucket begins where its number is reached."""
    n = n_buckets // 2
    near, gap = n // 2, distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = (near + (steps * (n - near)).ceil().long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance > 0)


def relative_buckets__last_bucket_open(distance, n_buckets=32, max_distance=128):
    """From max_distance on your numbers run past the last bucket of their half. Clamp them to n − 1: it holds all that is further away."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = near + (steps * (n - near)).long()
    return torch.where(gap < near, gap, far) + n * (distance > 0)


def relative_buckets__wrong_logarithm(distance, n_buckets=32, max_distance=128):
    """You divide by log(max_distance) where log(max_distance / near) is asked, so the last buckets are never reached at max_distance."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance)
    far = (near + (steps * (n - near)).long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance > 0)


def relative_buckets__evenly_wide(distance, n_buckets=32, max_distance=128):
    """Your far buckets are all equally wide. They should widen by a constant factor: use the logarithm of the distance."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = (gap - near) / (max_distance - near)
    far = (near + (steps * (n - near)).long()).clamp(max=n - 1)
    return torch.where(gap < near, gap, far) + n * (distance > 0)


def relative_buckets__not_whole(distance, n_buckets=32, max_distance=128):
    """Your buckets are floating point numbers, and a table cannot be indexed with those. Convert to whole numbers with .long()."""
    n, near = n_buckets // 2, n_buckets // 4
    gap = distance.abs()
    steps = torch.log(gap.clamp(min=near) / near) / math.log(max_distance / near)
    far = (near + (steps * (n - near)).floor()).clamp(max=n - 1)
    return torch.where(gap < near, gap.float(), far) + n * (distance > 0)


def relative_buckets__right__borders(distance, n_buckets=32, max_distance=128):
    n = n_buckets // 2
    near = n // 2
    growth = (max_distance / near) ** (1 / (n - near))
    borders = torch.tensor([float(i) for i in range(1, near + 1)] + [near * growth**k for k in range(1, n - near)])
    inside = torch.bucketize(distance.abs().float(), borders, right=True)
    return inside + (distance > 0).long() * n


def relative_buckets__right__loops(distance, n_buckets=32, max_distance=128):
    n = n_buckets // 2
    near = n // 2
    result = []
    for d in distance.flatten().tolist():
        bucket = abs(d)
        if bucket >= near:
            bucket = near + int(math.log(abs(d) / near) / math.log(max_distance / near) * (n - near))
        result.append(min(bucket, n - 1) + (n if d > 0 else 0))
    return torch.tensor(result, device=distance.device).reshape(distance.shape)


def relative_buckets__right__numpy(distance, n_buckets=32, max_distance=128):
    n, near = n_buckets // 2, n_buckets // 4
    gap = np.abs(distance.cpu().numpy())
    far = near + np.floor(np.log(np.maximum(gap, near) / near) / np.log(max_distance / near) * (n - near))
    bucket = np.where(gap < near, gap, np.minimum(far, n - 1)).astype(np.int64)
    return torch.from_numpy(bucket).to(distance.device) + n * (distance > 0)


# --- RelativeBias --------------------------------------------------------------------------------------------------


class RelativeBias__batch_axis_missing(RelativeBias):
    """You return (H, T, S). A leading 1 is asked for, so that the bias broadcasts over the batch: (1, H, T, S)."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets(s - t[:, None], self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)


class RelativeBias__heads_last(RelativeBias):
    """Your heads are the last axis. Scores are (B, H, T, S): move the heads in front of the queries."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        return self.weight[relative_buckets(s - t[:, None], self.weight.size(0), self.max_distance)][None]


class RelativeBias__reshaped(RelativeBias):
    """You reshape (T, S, H) to (H, T, S). A reshape never moves numbers, so heads, queries and keys are mixed: permute the axes."""

    def forward(self, length, memory_length=None):
        memory_length = length if memory_length is None else memory_length
        t, s = torch.arange(length), torch.arange(memory_length)
        buckets = relative_buckets(s - t[:, None], self.weight.size(0), self.max_distance)
        return self.weight[buckets].reshape(1, -1, length, memory_length)


class RelativeBias__sign_wrong(RelativeBias):
    """You count t − s. The distance goes from the query to the key, s − t: before and after are swapped in your bias."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets(t[:, None] - s, self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__transposed(RelativeBias):
    """Your rows are keys and your columns queries. A row of scores belongs to a query: (1, H, T, S)."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets(s[:, None] - t, self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__memory_ignored(RelativeBias):
    """You ignore memory_length and always return a square. Queries and keys may differ in number: (1, H, T, S)."""

    def forward(self, length, memory_length=None):
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets(t - t[:, None], self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__default_buckets(RelativeBias):
    """You call relative_buckets with its default numbers, whatever this table was made for. Pass the number of rows of the table and self.max_distance."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        return self.weight[relative_buckets(s - t[:, None])].permute(2, 0, 1)[None]


class RelativeBias__default_distance(RelativeBias):
    """You forget to pass self.max_distance, so the far buckets end at 128 in every model."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets(s - t[:, None], self.weight.size(0))
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__side_forgotten(RelativeBias):
    """Your bias is the same before and after the query: you pass the absolute distance. Its sign says on which side the key stands."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets((s - t[:, None]).abs(), self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__by_place(RelativeBias):
    """Every query of yours gets the same row: you look up where the key is, not how far it is from the query. Use s − t."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        buckets = relative_buckets(s.expand(length, -1), self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__aligned_at_the_end(RelativeBias):
    """With a longer memory you let the last query stand at the last key. Here both count from 0: query t stands at key t."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device) + len(s) - length
        buckets = relative_buckets(s - t[:, None], self.weight.size(0), self.max_distance)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeBias__detached(RelativeBias):
    """Your values are right, but the table gets no gradient and would never learn."""

    def forward(self, length, memory_length=None):
        s = torch.arange(length if memory_length is None else memory_length, device=self.weight.device)
        t = torch.arange(length, device=self.weight.device)
        buckets = relative_buckets(s - t[:, None], self.weight.size(0), self.max_distance)
        return self.weight.detach()[buckets].permute(2, 0, 1)[None]


class RelativeBias__right__embedding(RelativeBias):
    def forward(self, length, memory_length=None):
        keys = memory_length or length
        distance = torch.arange(keys)[None, :] - torch.arange(length)[:, None]
        buckets = relative_buckets(distance.to(self.weight.device), len(self.weight), self.max_distance)
        return F.embedding(buckets, self.weight).movedim(-1, 0).unsqueeze(0)


class RelativeBias__right__one_hot(RelativeBias):
    def forward(self, length, memory_length=None):
        keys = memory_length or length
        distance = torch.arange(keys)[None, :] - torch.arange(length)[:, None]
        buckets = relative_buckets(distance, len(self.weight), self.max_distance)
        chosen = F.one_hot(buckets, len(self.weight)).to(self.weight)
        return torch.einsum("tsn,nh->hts", chosen, self.weight)[None]


class RelativeBias__right__row_by_row(RelativeBias):
    def forward(self, length, memory_length=None):
        keys = torch.arange(memory_length or length)
        rows = [self.weight[relative_buckets(keys - t, len(self.weight), self.max_distance)].T for t in range(length)]
        return torch.stack(rows, dim=1)[None]


# --- apply_rope ----------------------------------------------------------------------------------------------------


def apply_rope__pairs_are_halves(x, angles):
    """You pair feature i with feature i + K/2, as some code bases do. Asked for are neighbours, (2i, 2i + 1): weights trained with one pairing do not work with the other."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def apply_rope__other_way_round(x, angles):
    """You turn by −θ. Scores still depend on the distance alone, but a model trained with the other direction would read it backwards: check the two signs."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos + b * sin, b * cos - a * sin), -1).flatten(-2)


def apply_rope__put_back_as_halves(x, angles):
    """You take neighbours apart but put them back as two halves: all first coordinates, then all second ones. Weave them together again."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def apply_rope__minus_missing(x, angles):
    """Both of your lines add. A turn needs one minus: a·cos − b·sin and a·sin + b·cos; otherwise lengths change."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos + b * sin, a * sin + b * cos), -1).flatten(-2)


def apply_rope__added(x, angles):
    """You add sines and cosines to x, as sinusoidal positions do. Rotation multiplies: it turns the vector that is there and adds nothing."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    return x + torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(x.dtype)


def apply_rope__cosine_only(x, angles):
    """You only multiply by the cosine, which shrinks a vector and does not turn it. The sine brings in the partner."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    return x * angles.cos().repeat_interleave(2, -1).to(x.dtype)


def apply_rope__angles_tiled(x, angles):
    """Your two features of a pair are turned by different angles: the angles are laid out as θ0 θ1 … θ0 θ1 … while the pairs are neighbours. Use repeat_interleave, not repeat."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = (v.repeat(1, 2).to(x.dtype) for v in (angles.cos(), angles.sin()))
    partner = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return x * cos + partner * sin


def apply_rope__first_overwritten(x, angles):
    """You compute the second coordinate from the new first one. Both new coordinates are made from the old pair: keep it until you are done."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    a = a * cos - b * sin
    b = a * sin + b * cos
    return torch.stack((a, b), -1).flatten(-2)


def apply_rope__dtype_promoted(x, angles):
    """Your values are right, but bfloat16 goes in and float32 comes out: the angles are float32 and pull the product up. Convert cosines and sines to the dtype of x."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1).flatten(-2)


def apply_rope__angles_rounded(x, angles):
    """You convert the angles to the dtype of x before you take their cosines and sines: in bfloat16 an angle of 257 is 256, and far tokens are turned to a wrong place. Convert the cosines and sines."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.to(x.dtype).cos(), angles.to(x.dtype).sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def apply_rope__sine_and_cosine_swapped(x, angles):
    """Sine and cosine have changed places: at angle 0 your point already turns by a right angle."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def apply_rope__misfits_accepted(x, angles):
    """You never look at the shape of the angles: some misfits end in PyTorch's message about sizes, others broadcast and turn every token alike. Raise a ValueError unless it is (T, K / 2)."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def apply_rope__turned_twice(x, angles):
    """You turn by 2θ. Each pair is turned once, by the angle it is given."""
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError("angles do not fit")
    cos, sin = (2 * angles).cos().to(x.dtype), (2 * angles).sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def apply_rope__right__complex(x, angles):
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError(f"angles {tuple(angles.shape)} do not fit x {tuple(x.shape)}")
    point = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(point * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


def apply_rope__right__partner(x, angles):
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError(f"angles {tuple(angles.shape)} do not fit x {tuple(x.shape)}")
    cos, sin = (v.repeat_interleave(2, dim=-1).to(x.dtype) for v in (angles.cos(), angles.sin()))
    partner = torch.empty_like(x)
    partner[..., 0::2], partner[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return x * cos + partner * sin


def apply_rope__right__matrices(x, angles):
    if angles.shape != (x.size(-2), x.size(-1) // 2):
        raise ValueError(f"angles {tuple(angles.shape)} do not fit x {tuple(x.shape)}")
    turn = torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).unflatten(-1, (2, 2))
    return torch.einsum("tiab,...tib->...tia", turn.to(x.dtype), x.unflatten(-1, (-1, 2))).flatten(-2)


# --- equivariance_error --------------------------------------------------------------------------------------------


def equivariance_error__output_left_in_place(f, x, order):
    """You compare f of the shuffled input with f(x) itself. Equivariant means that the output is shuffled, too: compare with f(x)[:, order]."""
    return (f(x[:, order]) - f(x)).abs().max().item()


def equivariance_error__shuffled_back(f, x, order):
    """You apply the inverse order to one side. Both sides take the same order."""
    return (f(x[:, order]) - f(x)[:, order.argsort()]).abs().max().item()


def equivariance_error__both_inputs_shuffled(f, x, order):
    """You shuffle the input on both sides, so they always agree. On one side the input is shuffled, on the other the output."""
    return (f(x[:, order]) - f(x[:, order])).abs().max().item()


def equivariance_error__features_shuffled(f, x, order):
    """You shuffle the features, the last axis. The tokens are axis 1."""
    return (f(x[..., order]) - f(x)[..., order]).abs().max().item()


def equivariance_error__batch_shuffled(f, x, order):
    """You shuffle the sequences of the batch, axis 0. The tokens are axis 1: x[:, order]."""
    return (f(x[order]) - f(x)[order]).abs().max().item()


def equivariance_error__mean(f, x, order):
    """You return the mean difference. The largest is asked for: one token out of place must not be averaged away."""
    return (f(x[:, order]) - f(x)[:, order]).abs().mean().item()


def equivariance_error__sign_kept(f, x, order):
    """You take the largest difference without its absolute value: a large negative one goes unseen."""
    return (f(x[:, order]) - f(x)[:, order]).max().item()


def equivariance_error__euclidean(f, x, order):
    """You return the Euclidean norm of all differences, which grows with the size of the input. Return the largest absolute one."""
    return (f(x[:, order]) - f(x)[:, order]).norm().item()


def equivariance_error__relative(f, x, order):
    """You divide by the size of the output. The plain largest absolute difference is asked for."""
    y = f(x)[:, order]
    return ((f(x[:, order]) - y).abs().max() / y.abs().max()).item()


def equivariance_error__right__index_select(f, x, order):
    moved_before = f(x.index_select(1, order))
    moved_after = f(x).index_select(1, order)
    return float(torch.max(torch.abs(moved_before - moved_after)))


def equivariance_error__right__inverse_on_the_left(f, x, order):
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return (f(x[:, order])[:, back] - f(x)).abs().max().item()


def equivariance_error__right__loops(f, x, order):
    shuffled = torch.stack([x[:, int(t)] for t in order], dim=1)
    left, right = f(shuffled), f(x)
    return max(float((left[:, t] - right[:, int(o)]).abs().max()) for t, o in enumerate(order))


# --- sentence_gap --------------------------------------------------------------------------------------------------


def sentence_gap__sums(f, table, first, second):
    """You add the tokens up. Their average is asked for, or a longer sentence would be far from a shorter one just for its length."""
    a, b = (f(table[torch.tensor(ids)][None]).sum(1) for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__mean_over_features(f, table, first, second):
    """You average over the features, the last axis. Average over the tokens, so that a vector of width D is left."""
    a, b = (f(table[torch.tensor(ids)][None]).mean(-1) for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__first_token(f, table, first, second):
    """You compare the first tokens. They differ because the words differ, even where the sentence as a whole is not told apart. Average over all tokens."""
    a, b = (f(table[torch.tensor(ids)][None])[:, 0] for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__squared(f, table, first, second):
    """You return the squared distance. The Euclidean distance is its root."""
    a, b = (f(table[torch.tensor(ids)][None]).mean(1) for ids in (first, second))
    return (a - b).square().sum().item()


def sentence_gap__token_by_token(f, table, first, second):
    """You compare the sentences token by token and never average. Then two orders differ even for a reader of sets."""
    a, b = (f(table[torch.tensor(ids)][None]) for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__averaged_too_early(f, table, first, second):
    """You average the embeddings before f sees them. Then no order is left for f to notice: average its outputs."""
    a, b = (f(table[torch.tensor(ids)].mean(0, keepdim=True)[None])[:, 0] for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__largest_value(f, table, first, second):
    """You take the largest value over the tokens. The average is asked for."""
    a, b = (f(table[torch.tensor(ids)][None]).amax(1) for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__f_unused(f, table, first, second):
    """You compare averages of embeddings: f is never called, and it is f that is under test."""
    a, b = (table[torch.tensor(ids)].mean(0) for ids in (first, second))
    return (a - b).norm().item()


def sentence_gap__largest_difference(f, table, first, second):
    """You return the largest difference of one feature. The Euclidean distance takes all of them: the root of the sum of squares."""
    a, b = (f(table[torch.tensor(ids)][None]).mean(1) for ids in (first, second))
    return (a - b).abs().max().item()


def sentence_gap__right__embedding(f, table, first, second):
    means = [f(F.embedding(torch.tensor([ids]), table))[0].mean(dim=0) for ids in (first, second)]
    return float(torch.dist(*means))


def sentence_gap__right__loops(f, table, first, second):
    averages = []
    for ids in (first, second):
        out = f(torch.stack([table[i] for i in ids]).unsqueeze(0))
        averages.append([float(sum(out[0, t, d] for t in range(len(ids)))) / len(ids) for d in range(table.size(1))])
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(*averages, strict=True)))


def sentence_gap__right__numpy(f, table, first, second):
    a = f(table[first].unsqueeze(0)).detach().numpy().mean(axis=1)
    b = f(table[second].unsqueeze(0)).detach().numpy().mean(axis=1)
    return float(np.linalg.norm(a - b))


# --- check_rotation ------------------------------------------------------------------------------------------------


def check_rotation__never_calls_it(rotate):
    """Your test never calls the function it is given, so it says the same of every rotation."""
    angles = rotary_angles(9, 8)
    assert torch.allclose(angles.sin() ** 2 + angles.cos() ** 2, torch.ones(9, 4))


def check_rotation__looks_only_at_shapes(rotate):
    """Your test looks only at shapes, and nearly every faulty rotation keeps them. Test what happens to scores."""
    x = torch.randn(9, 8)
    assert rotate(x, rotary_angles(9, 8)).shape == x.shape


def check_rotation__looks_only_at_lengths(rotate):
    """You test that lengths are kept, and so they are by a function that turns nothing or turns every token alike. Test that scores depend on the distance."""
    x = torch.randn(9, 8)
    turned = rotate(x, rotary_angles(9, 8))
    assert turned.shape == x.shape and torch.allclose(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-4)


def check_rotation__only_relative(rotate):
    """You test that equal distances give equal scores, but not that different distances give different ones, nor lengths: a function that turns nothing slips through."""
    q, k = torch.randn(1, 8).repeat(9, 1), torch.randn(1, 8).repeat(9, 1)
    scores = rotate(q, rotary_angles(9, 8)) @ rotate(k, rotary_angles(9, 8)).T
    for gap in range(-7, 8):
        line = scores.diagonal(gap)
        assert (line - line[0]).abs().max() < 1e-3
    assert rotate(q, rotary_angles(9, 8)).shape == q.shape


def check_rotation__only_position_zero(rotate):
    """You test only that position 0 stays as it is. Most of the colleague's bugs leave it alone, too: test the positions where something turns."""
    x = torch.randn(9, 8)
    turned = rotate(x, rotary_angles(9, 8))
    assert turned.shape == x.shape and torch.allclose(turned[0], x[0], atol=1e-5)


def check_rotation__lengths_forgotten(rotate):
    """You test that scores depend on the distance and on it alone, but a function that also stretches every vector slips through: test the lengths."""
    q, k = torch.randn(1, 8).repeat(9, 1), torch.randn(1, 8).repeat(9, 1)
    scores = rotate(q, rotary_angles(9, 8)) @ rotate(k, rotary_angles(9, 8)).T
    for gap in range(-7, 8):
        line = scores.diagonal(gap)
        assert (line - line[0]).abs().max() < 1e-3
    assert scores[0].std() > 1e-3 and rotate(q, rotary_angles(9, 8)).shape == q.shape


def check_rotation__returns_false(rotate):
    """Your test returns True or False instead of raising: nobody looks at what a test returns. Use assert."""
    q, k = torch.randn(1, 8).repeat(9, 1), torch.randn(1, 8).repeat(9, 1)
    scores = rotate(q, rotary_angles(9, 8)) @ rotate(k, rotary_angles(9, 8)).T
    return bool(torch.allclose(scores.diagonal(2), scores[0, 2].expand(7), atol=1e-3))


def check_rotation__only_neighbours_accepted(rotate):
    """Your test compares with one formula and so rejects a rotation that pairs halves or turns the other way round. Test what a rotation is for, not how it is written."""
    x, angles = torch.randn(9, 8), rotary_angles(9, 8)
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    assert torch.allclose(rotate(x, angles), torch.stack(pairs, -1).flatten(-2), atol=1e-4)


def check_rotation__rejects_everything(rotate):
    """Your test fails a right rotation as well. Scores at one distance are equal only when the same two vectors stand at every position: yours differ from token to token."""
    q, k = torch.randn(9, 8), torch.randn(9, 8)
    scores = rotate(q, rotary_angles(9, 8)) @ rotate(k, rotary_angles(9, 8)).T
    line = scores.diagonal(2)
    assert (line - line[0]).abs().max() < 1e-3


def check_rotation__right__moved_by_some_places(rotate):
    angles = rotary_angles(12, 6)
    q, k = torch.randn(6), torch.randn(6)

    def score(t, u):
        x, y = torch.zeros(12, 6), torch.zeros(12, 6)
        x[t], y[u] = q, k
        return float(rotate(x, angles)[t] @ rotate(y, angles)[u])

    x = torch.randn(12, 6)
    assert torch.allclose(rotate(x, angles).square().sum(-1), x.square().sum(-1), atol=1e-3), "lengths change"
    for t, u in [(0, 1), (2, 0), (5, 1), (1, 6)]:
        assert all(abs(score(t, u) - score(t + move, u + move)) < 1e-3 for move in (1, 3, 5)), "the place matters"
    assert abs(score(0, 0) - score(0, 3)) + abs(score(0, 0) - score(4, 0)) > 1e-3, "the distance does not matter"


def check_rotation__right__inner_products(rotate):
    angles, basis = rotary_angles(7, 4), torch.eye(4)
    turned = torch.stack([rotate(row.repeat(7, 1), angles) for row in basis], -1)  # a matrix a position
    products = turned.mT[:, None] @ turned[None]  # R_tᵀ R_u
    assert torch.allclose(products[0, 0], basis, atol=1e-4) and torch.allclose(products[6, 6], basis, atol=1e-4)
    for t in range(6):
        for u in range(6):
            assert torch.allclose(products[t, u], products[t + 1, u + 1], atol=1e-4), "moving both changes the score"
    assert not torch.allclose(products[0, 1], products[0, 0], atol=1e-2), "nothing is turned"
    two = rotate(torch.ones(7, 4), angles)
    assert torch.allclose(two.norm(dim=-1), torch.full((7,), 2.0), atol=1e-4), "lengths change"


def check_rotation__right__many_trials(rotate):
    for _ in range(5):
        angles = rotary_angles(20, 8, 100.0)
        q, k = torch.randn(8).expand(20, 8), torch.randn(8).expand(20, 8)
        a, b = rotate(q.clone(), angles), rotate(k.clone(), angles)
        assert (a.norm(dim=1) - q.norm(dim=1)).abs().max() < 1e-3, "lengths change"
        scores = a @ b.T
        assert (scores[1:, 1:] - scores[:-1, :-1]).abs().max() < 1e-3, "one word in front changes the scores"
        assert (scores[0] - scores[0, 0]).abs().max() > 1e-3, "the distance makes no difference"
