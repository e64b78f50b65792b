import pytest
import torch
from hypothesis import settings

settings.register_profile(
    "encoder", deadline=None, max_examples=30, derandomize=True
)  # time says nothing on a busy CPU
settings.load_profile("encoder")


@pytest.fixture(autouse=True)
def same_numbers_every_time():
    torch.manual_seed(0)
