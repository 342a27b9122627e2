"""Two sweeps over rows of logits: every statistic (MATH §1), then the gradient of anything written on them (MATH §2).

Both read float32 (or float64) logits that a matrix product has left in device memory; ``triton_chunk`` launches them.
A thread takes four neighbouring columns at a time and keeps one running maximum for the four: that is one load of 16
bytes, a quarter more exponentials than columns, and sums that merge only once, at the end of the row.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl

FOUND = ("logp", "peak", "log_z", "entropy", "logp_ref", "peak_ref", "log_z_ref", "mean_d", "kl", "kl_rev", "delta")
"""Rows of the float output of ``measure_rows``. ``peak`` + ``log_z`` = LSE; ``mean_d`` = sum p d."""

LOGP, PEAK, LOG_Z, ENTROPY = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
LOGP_REF, PEAK_REF, LOG_Z_REF = tl.constexpr(4), tl.constexpr(5), tl.constexpr(6)
MEAN_D, KL, KL_REV, DELTA = tl.constexpr(7), tl.constexpr(8), tl.constexpr(9), tl.constexpr(10)

WIDE = tl.constexpr(4)  # columns a thread takes at once
NOTHING = tl.constexpr(-3.0e38)  # below every logit; exp(NOTHING - logit) = 0
NO_COLUMN = tl.constexpr(2**31 - 1)
FAR = tl.constexpr(-60.0)  # exp(-d) of a column with d below this would not fit the sums
CANCELS = tl.constexpr(-0.9)  # E_p expm1(-d) below this has lost the digits of E_p e^-d


@triton.jit
def _rise(x, columns, peak, top):
    """The running maxima with four more columns each, and where they first were."""
    highest = tl.max(x, 1)
    higher = highest > peak
    first = tl.min(tl.where(x == highest[:, None], columns, NO_COLUMN), 1)
    return tl.where(higher, highest, peak), tl.where(higher, first, top)


@triton.jit
def _whole(x, factor):
    """A sum over all threads; one whose columns are all switched off (factor 0) may hold anything."""
    return tl.sum(tl.where(factor > 0, x * factor, 0.0), 0)


@triton.jit
def _first(top, peak, highest, num_vocab):
    """The lowest column among the threads that hold the maximum. In range even if the row is not a number."""
    return tl.minimum(tl.min(tl.where(peak == highest, top, NO_COLUMN), 0), num_vocab - 1)


@triton.jit
def _expm1(x):
    """exp(x) - 1 to float32 precision: Taylor up to x^7 where the subtraction would cancel."""
    series = 1 + x * (1 / 6) * (1 + x * (1 / 7))
    series = 1 + x * (1 / 3) * (1 + x * (1 / 4) * (1 + x * (1 / 5) * series))
    return tl.where(tl.abs(x) < 0.5, x * (1 + x * 0.5 * series), tl.exp(x) - 1)


@triton.jit
def _log1p(x):
    """log(1 + x) to float32 precision (Kahan's correction of the rounding of 1 + x)."""
    one_more = 1 + x
    return tl.where(one_more == 1, x, tl.log(one_more) * (x / tl.where(one_more == 1, 1.0, one_more - 1)))


@triton.jit
def measure_rows(
    a_ptr,
    b_ptr,
    targets_ptr,
    cached_top_ref_ptr,
    found_ptr,
    top_ptr,
    num_rows,
    num_vocab,
    stride,
    LIVE: tl.constexpr,  # b_ptr is the anchor's logits
    DIFFERENCE: tl.constexpr,  # ... or what the policy's exceed them by
    WANT_KL: tl.constexpr,
    WANT_KL_REV: tl.constexpr,
    WANT_ENTROPY: tl.constexpr,
    WANT_DELTA: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The statistics of one row: [len(FOUND), num_rows] floats, [2, num_rows] argmaxes."""
    row = tl.program_id(0).to(tl.int64)
    a_row, b_row = a_ptr + row * stride, b_ptr + row * stride
    tile = tl.arange(0, BLOCK // WIDE)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
    kind = a_ptr.dtype.element_ty
    nought = tl.zeros([BLOCK // WIDE], dtype=kind)
    peak, top, z = nought + NOTHING, tl.zeros([BLOCK // WIDE], dtype=tl.int32), nought
    peak_ref, top_ref, z_ref = peak, top, nought
    sum_log, sum_d, sum_d_ref, sum_expm1, lowest = nought, nought, nought, nought, nought

    for start in range(0, num_vocab, BLOCK):
        columns = start + tile
        inside = columns < num_vocab
        a = tl.load(a_row + columns, mask=inside, other=NOTHING)
        was = peak
        peak, top = _rise(a, columns, peak, top)
        shrink = tl.exp(was - peak)
        e = tl.where(inside, tl.exp(a - peak[:, None]), 0.0)
        if WANT_ENTROPY:
            sum_log = shrink * sum_log + (shrink * z) * (was - peak) + tl.sum(e * (a - peak[:, None]), 1)
        z = z * shrink + tl.sum(e, 1)
        if LIVE:
            if DIFFERENCE:
                d = tl.load(b_row + columns, mask=inside, other=0.0)
                b = a - d
                sum_expm1 = sum_expm1 * shrink + tl.sum(e * _expm1(-tl.maximum(d, FAR)), 1)
                lowest = tl.minimum(lowest, tl.min(d, 1))
            else:
                b = tl.load(b_row + columns, mask=inside, other=NOTHING)
                d = a - b
            was = peak_ref
            peak_ref, top_ref = _rise(b, columns, peak_ref, top_ref)
            shrink_ref = tl.exp(was - peak_ref)
            e_ref = tl.where(inside, tl.exp(b - peak_ref[:, None]), 0.0)
            z_ref = z_ref * shrink_ref + tl.sum(e_ref, 1)
            if WANT_KL:
                sum_d = sum_d * shrink + tl.sum(e * d, 1)
            if WANT_KL_REV:
                sum_d_ref = sum_d_ref * shrink_ref + tl.sum(e_ref * d, 1)

    found = found_ptr + row
    highest = tl.max(peak, 0)
    factor = tl.exp(peak - highest)
    total = _whole(z, factor)
    log_z = tl.log(total)
    target = tl.load(targets_ptr + row)
    known = (target >= 0) & (target < num_vocab)
    logp = (tl.load(a_row + target, mask=known, other=float("nan")) - highest) - log_z
    tl.store(found + LOGP * num_rows, logp)
    tl.store(found + PEAK * num_rows, highest)
    tl.store(found + LOG_Z * num_rows, log_z)
    tl.store(top_ptr + row, _first(top, peak, highest, num_vocab).to(tl.int64))
    if WANT_ENTROPY:
        mean_log = _whole(sum_log + z * (peak - highest), factor) / total
        tl.store(found + ENTROPY * num_rows, tl.maximum(log_z - mean_log, 0.0))

    if LIVE:
        highest_ref = tl.max(peak_ref, 0)
        factor_ref = tl.exp(peak_ref - highest_ref)
        total_ref = _whole(z_ref, factor_ref)
        log_z_ref = tl.log(total_ref)
        shift = (highest - highest_ref) + (log_z - log_z_ref)  # LSE(a) - LSE(b), not drowned by the logits' size
        b_target = tl.load(b_row + target, mask=known, other=float("nan"))
        logp_ref = (b_target - highest_ref) - log_z_ref
        if DIFFERENCE:
            mean_expm1 = _whole(sum_expm1, factor) / total
            near = (tl.min(lowest, 0) > FAR) & (mean_expm1 > CANCELS)
            shift = tl.where(near, -_log1p(tl.maximum(mean_expm1, CANCELS)), shift)  # LSE(b) = LSE(a) + log E_p e^-d
            logp_ref = logp - b_target + shift
        tl.store(found + LOGP_REF * num_rows, logp_ref)
        tl.store(found + PEAK_REF * num_rows, highest_ref)
        tl.store(found + LOG_Z_REF * num_rows, log_z_ref)
        column_ref = _first(top_ref, peak_ref, highest_ref, num_vocab).to(tl.int64)
        tl.store(top_ptr + num_rows + row, column_ref)
        if WANT_KL:
            mean_d = _whole(sum_d, factor) / total
            tl.store(found + MEAN_D * num_rows, mean_d)
            tl.store(found + KL * num_rows, tl.maximum(mean_d - shift, 0.0))
        if WANT_KL_REV:
            mean_d_ref = _whole(sum_d_ref, factor_ref) / total_ref
            tl.store(found + KL_REV * num_rows, tl.maximum(shift - mean_d_ref, 0.0))
    elif WANT_DELTA:
        column_ref = tl.load(cached_top_ref_ptr + row)
    if WANT_DELTA:
        at_ref = tl.load(a_row + column_ref, mask=(column_ref >= 0) & (column_ref < num_vocab), other=float("nan"))
        tl.store(found + DELTA * num_rows, at_ref - highest)


@triton.jit
def _slope(ptr, row, scale, USED: tl.constexpr):
    """d loss / d statistic of a row, or 0 where the objective does not read it."""
    slope = scale * 0
    if USED:
        slope = tl.load(ptr + row).to(scale.dtype)
    return slope


@triton.jit
def differentiate_rows(
    a_ptr,
    b_ptr,
    targets_ptr,
    top_ptr,
    top_ref_ptr,
    found_ptr,
    scale_ptr,
    logp_ptr,
    kl_ptr,
    kl_rev_ptr,
    entropy_ptr,
    delta_ptr,
    grad_ptr,
    squares_ptr,
    num_rows,
    num_vocab,
    stride,
    grad_stride,
    DIFFERENCE: tl.constexpr,
    USE_LOGP: tl.constexpr,
    USE_KL: tl.constexpr,
    USE_KL_REV: tl.constexpr,
    USE_ENTROPY: tl.constexpr,
    USE_DELTA: tl.constexpr,
    WANT_SQUARES: tl.constexpr,
    BLOCK: tl.constexpr,
    TILES: tl.constexpr,
):
    """scale * dl/da of BLOCK * TILES columns of a row, from its statistics and the loss's slopes in them.

    Rows come last first: those that ``measure_rows`` has read last are still in the cache.
    """
    row = (num_rows - 1 - tl.program_id(0)).to(tl.int64)
    found = found_ptr + row
    scale = tl.load(scale_ptr + row)
    g_logp = _slope(logp_ptr, row, scale, USE_LOGP)
    g_kl = _slope(kl_ptr, row, scale, USE_KL)
    g_kl_rev = _slope(kl_rev_ptr, row, scale, USE_KL_REV)
    g_entropy = _slope(entropy_ptr, row, scale, USE_ENTROPY)
    g_delta = _slope(delta_ptr, row, scale, USE_DELTA)
    compared = (g_kl != 0) | (g_kl_rev != 0)  # a row that is not needs no look at the anchor
    touched = compared | (g_logp != 0) | (g_entropy != 0)  # nor, without any of these, at its own logits
    end, end_ref = tl.where(touched, num_vocab, 0), tl.where(compared, num_vocab, 0)
    peak, log_z = tl.load(found + PEAK * num_rows), tl.load(found + LOG_Z * num_rows)
    target = tl.load(targets_ptr + row).to(tl.int32)
    if USE_KL:
        mean_d = tl.load(found + MEAN_D * num_rows)
    if USE_KL_REV:
        peak_ref, log_z_ref = tl.load(found + PEAK_REF * num_rows), tl.load(found + LOG_Z_REF * num_rows)
    if USE_ENTROPY:
        entropy = tl.load(found + ENTROPY * num_rows)
    if USE_DELTA:
        top, top_ref = tl.load(top_ptr + row).to(tl.int32), tl.load(top_ref_ptr + row).to(tl.int32)

    tile = tl.arange(0, BLOCK // WIDE)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
    segment = tl.program_id(1) * (BLOCK * TILES)
    squares = tl.zeros([BLOCK // WIDE], dtype=a_ptr.dtype.element_ty)
    for number in range(TILES):
        columns = segment + number * BLOCK + tile
        inside = columns < num_vocab
        a = tl.load(a_ptr + row * stride + columns, mask=columns < end, other=NOTHING)
        log_p = (a - peak) - log_z
        weight = tl.zeros_like(a) + (g_kl_rev - g_logp)
        if USE_KL or USE_KL_REV:
            other = tl.load(b_ptr + row * stride + columns, mask=columns < end_ref, other=0.0)
        if USE_KL:
            d = other if DIFFERENCE else a - other
            weight += tl.where(compared, g_kl * (d - mean_d), 0.0)
        if USE_ENTROPY:
            weight -= g_entropy * (log_p + entropy)
        grad = tl.exp(log_p) * weight
        if USE_KL_REV:
            b = a - other if DIFFERENCE else other
            grad -= tl.where(compared, g_kl_rev * tl.exp((b - peak_ref) - log_z_ref), 0.0)
        if USE_LOGP:
            grad += tl.where(columns == target, g_logp, 0.0)
        if USE_DELTA:
            grad += tl.where(columns == top_ref, g_delta, 0.0) - tl.where(columns == top, g_delta, 0.0)
        if WANT_SQUARES:
            squares += tl.sum(tl.where(inside, grad * grad, 0.0), 1)
        grad_at = grad_ptr + row * grad_stride + columns
        tl.store(grad_at, (scale * grad).to(grad_ptr.dtype.element_ty), mask=inside)
    if WANT_SQUARES:
        tl.store(squares_ptr + tl.program_id(1) * num_rows + row, tl.sum(squares, 0))
