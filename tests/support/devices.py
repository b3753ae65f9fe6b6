"""The devices that tests of tensors run on: this processor, and a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.cuda,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
        ],
    ),
]
