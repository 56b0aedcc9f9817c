"""The CUDA backends against the reference; skipped where there is no device."""

import pytest
import torch

from longdoc.attention import Pattern, attend, choose_backend
from longdoc.attention.flash import why_not_flash
from longdoc.attention.flex import why_not_flex
from tests.attention.cases import random_case

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_cuda(case, backend, dtype):
    q, k, v = (x.detach().to("cuda", dtype).requires_grad_() for x in case.inputs[:3])
    out = attend(q, k, v, case.pattern, backend=backend)
    out.backward(case.inputs[3].to("cuda", dtype))
    return [x.double().cpu() for x in (out.detach(), q.grad, k.grad, v.grad)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("backend", ["blocked", "flex", "flash"])
def test_backends_equal_the_reference(backend, seed):
    case = random_case(seed)
    dtype = torch.bfloat16 if backend == "flash" else torch.float32
    like = case.inputs[0].to("cuda", dtype)
    reason = {"flash": why_not_flash, "flex": why_not_flex}.get(backend, lambda *_: None)(case.pattern, like, 0.0)
    if reason is not None:
        pytest.skip(reason)
    limit = 5e-2 if backend == "flash" else 2e-3
    for want, got in zip(on_cuda(case, "reference", torch.float64), on_cuda(case, backend, dtype), strict=True):
        assert (want - got).abs().max() < limit * max(1.0, float(want.abs().max()))


def test_auto_takes_a_kernel_of_the_device():
    q = torch.zeros(1, 2, 4, 16, device="cuda")
    assert choose_backend(Pattern.packed([4]), q) == "flex"
    assert choose_backend(Pattern.packed([4]), q, dropout=0.1) == "blocked"
