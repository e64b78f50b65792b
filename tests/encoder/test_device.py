"""The fake-device check catches what it is for."""

import pytest
import torch
from device import check_device
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


class CpuTensor(Base):
    def forward(self, x):
        return self.linear(x) + torch.arange(4.0)


class ReadsValue(Base):
    def forward(self, x):
        return self.linear(x) * (1.0 if x.sum().item() > 0 else 2.0)


class CopiesBack(Base):
    def forward(self, x):
        return self.linear(x) * self.linear.weight.sum().cpu()


class HardCoded(Base):
    def forward(self, x):
        return self.linear(x) + torch.zeros(4, device="cuda")


class PlainList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]

    def forward(self, x):
        return self.layers[0](x)


class LeavesDevice(Base):
    def forward(self, x):
        return torch.ones(4)


@pytest.mark.parametrize("module", [CpuTensor, ReadsValue, CopiesBack, HardCoded, PlainList, LeavesDevice])
def test_a_device_bug_is_caught(module):
    with pytest.raises((RuntimeError, AssertionError)):
        check_device(module(), torch.randn(2, 4))


def test_a_right_module_passes_and_is_left_where_it_was():
    module = Base()
    check_device(module, torch.randn(2, 4))
    assert module.linear.weight.device.type == "cpu"
    assert module.linear.weight.grad is None


def test_a_parameter_without_gradient_is_named():
    module = Base()
    module.forgotten = nn.Parameter(torch.ones(3))
    with pytest.raises(AssertionError, match="forgotten"):
        check_device(module, torch.randn(2, 4))
    check_device(module, torch.randn(2, 4), unused=["forgotten"])


def test_tied_weights_stay_tied():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    check_device(module, torch.randn(2, 4))
