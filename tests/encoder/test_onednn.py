import copy

import pytest
import torch
from device import check_device
from oracles import assert_same, jitter
from torch import nn

from encoder import onednn
from encoder.onednn import OneDNNLinear, use_onednn
from encoder.stack import Encoder, mixed_precision

B, T, D, H, W = 2, 5, 12, 3, 7


@pytest.fixture
def products(monkeypatch):
    """How often oneDNN was called."""
    calls = []
    real = onednn.product
    monkeypatch.setattr(onednn, "product", lambda *args: calls.append(args) or real(*args))
    return calls


@pytest.mark.parametrize("sizes", [(2, D, H, W), (2, 256, 4, 1024)])
@pytest.mark.parametrize("lengths", [None, [5, 2]])
def test_outputs_and_gradients_are_those_of_nn_linear(sizes, lengths, products):
    plain = jitter(Encoder(*sizes))
    fast = use_onednn(copy.deepcopy(plain))
    x = torch.randn(B, T, sizes[1], requires_grad=True)
    upstream = torch.randn(B, T, sizes[1]) / sizes[1] ** 0.5
    expected = plain(x, lengths=lengths)
    out = fast(x, lengths=lengths)
    assert len(products) == 2 * 6
    assert_same(out, expected)
    theirs = torch.autograd.grad(expected, (x, *plain.parameters()), upstream)
    for a, b in zip(torch.autograd.grad(out, (x, *fast.parameters()), upstream), theirs, strict=True):
        assert_same(a, b)
    assert len(products) == 3 * 2 * 6, "both gradients of every product too"


def test_weights_stay_the_same_objects_under_the_same_names():
    model = nn.Sequential(nn.Linear(D, W), nn.Sequential(nn.Linear(W, D, bias=False)), nn.Linear(D, W), nn.Linear(W, D))
    model[2].weight = model[0].weight
    before = dict(model.named_parameters(remove_duplicate=False))
    assert use_onednn(model) is model
    after = dict(model.named_parameters(remove_duplicate=False))
    assert list(before) == list(after) and all(before[name] is after[name] for name in before)
    assert all(isinstance(m, OneDNNLinear) for m in (model[0], model[1][0], model[2], model[3]))
    assert model(torch.randn(B, D)).shape == (B, D)


def test_frozen_weights_cost_no_product(products):
    layer = use_onednn(nn.Sequential(nn.Linear(D, W)))
    layer.requires_grad_(False)
    x = torch.randn(B, D, requires_grad=True)
    layer(x).sum().backward()
    assert len(products) == 2 and x.grad is not None


def test_elsewhere_it_is_nn_linear(products):
    layer = use_onednn(nn.Sequential(nn.Linear(D, W)))
    x = torch.randn(B, T, D)
    with mixed_precision(x.device):
        assert layer(x).dtype == torch.bfloat16
    assert layer.double()(x.double()).dtype == torch.float64
    assert layer.float()(x[:0]).shape == (0, T, W)
    check_device(layer, x)
    assert not products
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        layer(torch.randn(4, D // 2))
    assert layer(x[0, 0]).shape == (W,)
    assert len(products) == 1
