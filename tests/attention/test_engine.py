"""Every backend against the reference, and what must never depend on what."""

import logging
from dataclasses import replace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from longdoc.attention import Pattern, alibi_slopes, attend, banded, choose_backend, first_tokens
from longdoc.attention.reference import reference_weights
from longdoc.errors import ConfigError
from tests.attention.cases import random_case, run

HALF = (torch.float16, torch.bfloat16)


def draw(rows: int, heads: int, slots: int, width: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(rows, slots, heads, width, generator=generator).transpose(1, 2) for _ in range(3))


def check_against_reference(seed: int, most_tokens: int) -> None:
    case = random_case(seed, most_tokens)
    expected, actual = run(case, "reference", torch.float64), run(case, "blocked")
    for name, limit, want, got in zip("oqkv", (1e-5, 1e-4, 1e-4, 1e-4), expected, actual, strict=True):
        assert (want - got).abs().max() < limit, f"{name} of case {seed}"


@pytest.mark.parametrize("seed", range(60))
def test_blocked_equals_reference(seed):
    check_against_reference(seed, most_tokens=900)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_blocked_equals_reference_at_length(seed):
    check_against_reference(seed, most_tokens=3000)


@pytest.mark.parametrize("seed", range(5))
def test_float64_gradients_are_exact(seed):
    case = random_case(seed, most_tokens=700)
    for want, got in zip(run(case, "reference", torch.float64), run(case, "blocked", torch.float64), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF])
@pytest.mark.parametrize("length", [20, 700])
def test_rows_without_a_key_are_zero(dtype, length):
    mask = torch.zeros(3, length, dtype=torch.bool)
    mask[0, 3:9] = True
    mask[2] = True
    q, k, v = (x.to(dtype) for x in draw(3, 2, length, 16))
    for x in (q, k, v):
        x[0, :, 9:] = torch.nan
        x[1] = torch.inf
        x.requires_grad_()
    pattern = Pattern.padded(mask, 4, 4, slopes=alibi_slopes(2))
    out = attend(q, k, v, pattern)
    out.float().square().sum().backward()
    empty = ~mask[:, None, :, None].expand_as(out)
    assert out.dtype == dtype
    assert (out[empty] == 0).all()
    assert out.isfinite().all()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert (x.grad[empty] == 0).all()


def test_a_batch_of_padding_alone_is_zero():
    q, k, v = draw(2, 2, 5, 8)
    out = attend(q, k, v, Pattern.padded(torch.zeros(2, 5)))
    assert (out == 0).all()


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_stays_near_float32(dtype):
    pattern = Pattern.packed([700, 30, 30], 64, 32, slopes=alibi_slopes(4))
    q, k, v = (x.to(dtype).requires_grad_() for x in draw(1, 4, 760, 16))
    out = attend(q, k, v, pattern)
    out.sum().backward()
    expected = attend(q.double(), k.double(), v.double(), pattern, backend="reference")
    assert out.dtype == q.grad.dtype == dtype
    assert (out.double() - expected).abs().max() < 2e-2


def test_mixed_dtypes_follow_the_queries():
    q, k, v = draw(1, 2, 20, 16)
    pattern = Pattern.packed([20])
    assert attend(q, k, v.bfloat16(), pattern).dtype == torch.float32


def test_autocast_does_not_reach_the_scores():
    pattern = Pattern.packed([700], 64, 64)
    q, k, v = draw(1, 2, 700, 16)
    with torch.autocast("cpu", torch.bfloat16):
        inside = attend(q, k, v, pattern)
    assert torch.equal(inside, attend(q, k, v, pattern))


@pytest.mark.parametrize("length", [40, 300, 800])
@pytest.mark.parametrize("slopes", [None, alibi_slopes(2)])
def test_neighbours_and_order_change_nothing(length, slopes):
    q, k, v = draw(1, 2, length + 1400, 16)
    marked = torch.zeros(length + 1400, dtype=torch.bool)
    marked[[1, 705, length + 1000]] = True
    cut = (slice(0, 700), slice(700, 700 + length), slice(700 + length, length + 1400))
    packed = attend(q, k, v, Pattern.packed([700, length, 700], 50, 60, marked, slopes))

    def piece(part):
        inputs = [x[:, :, part] for x in (q, k, v)]
        return attend(*inputs, Pattern.packed([part.stop - part.start], 50, 60, marked[part], slopes))

    alone = [piece(part) for part in cut]
    assert torch.equal(packed, torch.cat(alone, 2))
    turned = [torch.cat([x[:, :, part] for part in cut[::-1]], 2) for x in (q, k, v)]
    marked_turned = torch.cat([marked[part] for part in cut[::-1]])
    swapped = attend(*turned, Pattern.packed([700, length, 700], 50, 60, marked_turned, slopes))
    assert torch.equal(swapped, torch.cat(alone[::-1], 2))


def test_a_document_with_nan_stays_alone():
    q, k, v = draw(1, 2, 1500, 16)
    v[:, :, 700:800] = torch.nan
    out = attend(q, k, v, Pattern.packed([700, 100, 700], 50, 50))
    assert out[:, :, :700].isfinite().all()
    assert out[:, :, 800:].isfinite().all()
    assert out[:, :, 700:800].isnan().all()


@pytest.mark.parametrize("block_tokens", [16, 100, 1000])
def test_block_size_changes_nothing(block_tokens):
    results = []
    for size in (block_tokens, 128):
        q, k, v = (x[0].clone().requires_grad_() for x in draw(1, 3, 900, 16))
        band = banded.Band(900, 70, 30, (0, 5, 899), alibi_slopes(3), size)
        out = banded.banded_attention(q, k, v, band, 0.25)
        out.square().sum().backward()
        results.append((out.detach(), q.grad, k.grad, v.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [60, 700])
@pytest.mark.parametrize("slopes", [None, alibi_slopes(2)])
def test_a_window_over_the_whole_segment_is_full_attention(length, slopes):
    q, k, v = draw(1, 2, length, 16)
    full = attend(q, k, v, Pattern.packed([length], slopes=slopes))
    for left, right in ((length - 1, length - 1), (length, None), (10**9, 10**9)):
        assert torch.equal(attend(q, k, v, Pattern.packed([length], left, right, slopes=slopes)), full)
    nearly = attend(q, k, v, Pattern.packed([length], length - 2, None, slopes=slopes))
    assert torch.equal(nearly[:, :, :-1], full[:, :, :-1]) or (nearly - full)[:, :, :-1].abs().max() < 1e-6
    assert not torch.equal(nearly[:, :, -1], full[:, :, -1])


def test_left_and_right_count_neighbours_without_self():
    pattern = Pattern.packed([6], left=2, right=1)
    weights = reference_weights(*draw(1, 1, 6, 8)[:2], pattern, 1.0)[0]
    assert (weights[3] > 0).tolist() == [False, True, True, True, True, False]


def test_uniform_weighs_visible_keys_alike():
    q, k, v = draw(1, 2, 5, 8)
    out = attend(q, k, v, Pattern.packed([3, 2], left=1, right=0, slopes=alibi_slopes(2), control="uniform"))
    torch.testing.assert_close(out[:, :, 2], (v[:, :, 1] + v[:, :, 2]) / 2)
    torch.testing.assert_close(out[:, :, 3], v[:, :, 3])


def test_a_window_of_zero_sees_only_itself():
    mask = torch.tensor([[True, True, False]])
    q, k, v = draw(1, 2, 3, 8)
    pattern = Pattern.padded(mask, 0, 0)
    out = attend(q, k, v, pattern)
    assert torch.equal(out[:, :, :2], v[:, :, :2])
    assert (out[:, :, 2] == 0).all()
    torch.testing.assert_close(attend(q, k, v, pattern, backend="reference"), out)


@pytest.mark.parametrize("length", [50, 700])
def test_gradient_checkpointing_gives_the_same(length):
    pattern = Pattern.packed([length], 30, 30)
    plain, again = (tuple(x.clone().requires_grad_() for x in draw(1, 2, length, 16)) for _ in range(2))
    attend(*plain, pattern).square().sum().backward()
    checkpoint(lambda *x: attend(*x, pattern), *again, use_reentrant=False).square().sum().backward()
    for one, other in zip(plain, again, strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize(("length", "num_global"), [(50, 0), (700, 0), (700, 2)])
def test_dropout_is_unbiased_and_its_gradient_fits(length, num_global):
    marked = torch.arange(length) < num_global
    pattern = Pattern.packed([length], 30, 30, marked if num_global else None)
    q, k, v = draw(1, 1, length, 8)
    v = torch.ones_like(v)
    torch.manual_seed(0)
    out = attend(q, k, v, pattern, dropout=0.25)
    assert 0.97 < out.mean() < 1.03
    assert (out - 1).abs().max() > 0.01
    assert not torch.equal(out, attend(q, k, v, pattern, dropout=0.25))

    def seeded(*inputs):
        torch.manual_seed(1)
        return attend(*inputs, pattern, dropout=0.25)

    q, k, v = (x[:, :, :length].double().requires_grad_() for x in draw(1, 1, length, 8))
    direction = [torch.randn_like(x) for x in (q, k, v)]
    seeded(q, k, v).sin().sum().backward()
    step = 1e-6
    with torch.no_grad():
        up, down = (
            seeded(*(x + sign * step * d for x, d in zip((q, k, v), direction, strict=True))).sin().sum()
            for sign in (1, -1)
        )
    slope = sum((x.grad * d).sum() for x, d in zip((q, k, v), direction, strict=True))
    torch.testing.assert_close((up - down) / (2 * step), slope, rtol=1e-5, atol=1e-6)


def test_fewer_key_heads_serve_several_query_heads():
    q, k, v = draw(1, 4, 30, 8)
    pattern = Pattern.packed([30], 5, 5)
    out = attend(q, k[:, :2], v[:, :2], pattern)
    shared = [x[:, [0, 0, 1, 1]] for x in (k, v)]
    assert torch.equal(out, attend(q, *shared, pattern))


def test_result_is_stored_token_by_token():
    for lengths in ([30], [700], [700, 30, 40, 30]):
        q, k, v = draw(1, 2, sum(lengths), 8)
        assert attend(q, k, v, Pattern.packed(lengths, 5, 5)).transpose(1, 2).is_contiguous()


def test_memory_is_linear_in_length():
    q, k, v = (x.requires_grad_() for x in draw(1, 1, 20_000, 16))
    attend(q, k, v, Pattern.packed([20_000], 16, 16, first_tokens([20_000]))).sum().backward()
    pattern = Pattern.packed([20_000], 16, 16)
    attend(q.detach(), k.detach(), v.detach(), pattern)
    held = sum(x.numel() for x in pattern._cache["templates"].values())
    assert held <= 64 * (64 + 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"left": -1}, "left=-1"),
        ({"left": "abc"}, "left='abc': expected an integer from 0"),
        ({"right": True}, "right=True"),
        ({"right": 2.5}, "right=2.5"),
        ({"control": "random"}, "control='random'"),
        ({"global_tokens": torch.ones(3)}, "one boolean for each of the 4 tokens"),
        ({"lengths": [4, 0]}, "at least one token"),
    ],
)
def test_impossible_patterns_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Pattern.packed(**{"lengths": [4], **arguments})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backend": "cudnn"}, "expected one of"),
        ({"backend": "flex"}, "CUDA"),
        ({"backend": "flash"}, "CUDA"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"slots": 5}, "expects shape"),
        ({"slopes": alibi_slopes(3)}, "one for each of 2 heads"),
    ],
)
def test_impossible_requests_are_refused(change, message):
    q, k, v = draw(1, 2, change.pop("slots", 4), 8)
    pattern = Pattern.packed([4], slopes=change.pop("slopes", None))
    with pytest.raises(ConfigError, match=message):
        attend(q, k, v, pattern, **change)


def test_keys_of_another_length_are_refused():
    q, k, v = draw(1, 2, 4, 8)
    with pytest.raises(ConfigError, match="attention between two sequences"):
        attend(q, k[:, :, :3], v[:, :, :3], Pattern.packed([4]))


def test_auto_says_what_it_chose_and_why(caplog, monkeypatch):
    monkeypatch.setattr("longdoc.attention.engine._said", set())
    q = draw(1, 2, 4, 8)[0]
    with caplog.at_level(logging.INFO, "longdoc"):
        assert choose_backend(Pattern.packed([4]), q) == "blocked"
        assert choose_backend(Pattern.packed([4]), q) == "blocked"
    assert len(caplog.records) == 1
    assert "blocked" in caplog.text
    assert "the one for a CPU" in caplog.text


def test_layers_share_what_a_pattern_holds():
    pattern = Pattern.packed([700], 100, 100)
    narrow = pattern.narrowed(8)
    assert pattern.narrowed(8) is narrow
    assert (narrow.left, narrow.right) == (8, 8)
    assert pattern.narrowed(200) is pattern


@pytest.mark.parametrize("length", [50, 700])
def test_a_changed_copy_keeps_nothing_of_its_source(length):
    q, k, v = draw(1, 2, length, 8)
    near = Pattern.packed([length], 5, 5)
    attend(q, k, v, near)
    wider = attend(q, k, v, replace(near, left=50, right=50))
    assert torch.equal(wider, attend(q, k, v, Pattern.packed([length], 50, 50)))


def test_what_was_kept_in_inference_serves_training_too() -> None:
    pattern = Pattern.packed([40, 300], 8, 8, first_tokens([40, 300]))
    q = torch.randn(1, 2, 340, 8, requires_grad=True)
    with torch.inference_mode():
        attend(q, q, q, pattern)
    attend(q, q, q, pattern).sum().backward()
    assert q.grad is not None
