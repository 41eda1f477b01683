"""Attention over the keys and values of a conversation: ``attend``, with an online softmax, so that no scores of a
whole context are kept.

Tokens stand at the positions ``start``, ``start + 1`` and so on, and see those at or before their own, the last
``window`` of them (0: all). Position p lies in slot ``p mod slots`` of the values [heads, slots, numbers] and of the
keys, which lie in blocks, [heads, slots / block, numbers, block], each one stretch of memory; ``ring`` says that there
may be more positions than slots. Query heads share a head of keys evenly: head h has the keys ``h // shared``. Scores
are multiplied by ``scale`` and, where ``cap`` is not 0, bent into -cap..cap. Sums are in f32, in an order of the
schedule's own; the reference has them in f64.

Keys and values are f32 or f16. Those of ``attend_bytes`` are i8, each head of a slot with a scale (f32[heads, slots]).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import F16, F32, I8, DType, TensorType
from sdk.compiler.ops.attention_loops import Shape, attention_loops
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var, prove_ge
from sdk.errors import BuildError

Array = NDArray[Any]
Types = Sequence[TensorType]
_MAX: Final = 1 << 30  # positions


def _infer(
    q: TensorType, keys: TensorType, values: TensorType, *, start: Dim, window: int, ring: bool, scale: float,
    cap: float,
) -> TensorType:  # fmt: skip
    if q.dtype != F32 or keys.dtype not in (F32, F16) or values.dtype != keys.dtype:
        raise BuildError(f"attend takes queries of f32, keys and values of f32 or f16, not {q}, {keys} and {values}")
    return _checked(q, keys, values, start, window, ring)


def _bytes_infer(
    q: TensorType, keys: TensorType, values: TensorType, keys_scale: TensorType, values_scale: TensorType, *,
    start: Dim, window: int, ring: bool, scale: float, cap: float,
) -> TensorType:  # fmt: skip
    kinds = [t.dtype for t in (q, keys, values, keys_scale, values_scale)]
    if kinds != [F32, I8, I8, F32, F32]:
        raise BuildError(f"attend_bytes takes f32, i8, i8, f32 and f32, not {', '.join(map(str, kinds))}")
    found = _checked(q, keys, values, start, window, ring)
    wanted = values.shape[:2]
    if (keys_scale.shape, values_scale.shape) != (wanted, wanted):
        raise BuildError(f"attend_bytes: scales {list(keys_scale.shape)}, {list(values_scale.shape)} of {list(wanted)}")
    return found


def _checked(q: TensorType, keys: TensorType, values: TensorType, start: Dim, window: int, ring: bool) -> TensorType:
    """The type of the result.

    Raises:
        BuildError: sizes or positions that do not fit.
    """
    if [t.rank for t in (q, keys, values)] != [3, 4, 3]:
        raise BuildError("attend takes [n, heads, numbers], [kv, blocks, numbers, block] and [kv, slots, numbers]")
    (n, heads, size), (kv, blocks, wide, block) = q.shape, keys.shape
    slots = blocks * block
    if values.shape != (kv, slots, wide) or wide != size:
        raise BuildError(f"attend: keys {list(keys.shape)} and values {list(values.shape)} for {list(q.shape)}")
    many = f"attend: {heads} heads of {size} by {kv} of keys in {slots} slots"
    if not all(isinstance(extent, int) for extent in (heads, *keys.shape)):
        raise BuildError(f"{many}: these are numbers")
    assert isinstance(heads, int)
    assert isinstance(kv, int)
    assert isinstance(size, int)
    assert isinstance(slots, int)
    if min(heads, kv, size, slots) < 1 or heads % kv:
        raise BuildError(f"{many}: none is 0, and heads share keys evenly")
    if not 0 <= window < _MAX or prove_ge(start, 0) is not True or prove_ge(_MAX, start + n) is not True:
        raise BuildError(f"attend: a window of {window}, and positions {start} on")
    if ring and not (window and prove_ge(slots, n + (window - 1)) is True):
        raise BuildError(f"attend: {slots} slots do not hold {n} tokens and {window} positions before the last of each")
    return q


def _ref(
    q: Array, keys: Array, values: Array, *, start: int, window: int, ring: bool, scale: float, cap: float
) -> Array:
    n, heads, size = q.shape
    kv, slots = values.shape[:2]
    keys = keys.transpose(0, 2, 1, 3).reshape(kv, size, slots)
    asked = q.astype(np.float64).reshape(n, kv, heads // kv, size)
    scores = np.einsum("nghd,gds->nghs", asked, keys.astype(np.float64)) * scale
    scores = np.tanh(scores / cap) * cap if cap else scores
    scores = np.where(_seen(n, slots, start, window)[:, None, None, :], scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=3, keepdims=True))
    shares /= shares.sum(axis=3, keepdims=True)
    mixed = np.einsum("nghs,gsd->nghd", shares, values.astype(np.float64))
    return np.asarray(mixed).reshape(q.shape).astype(np.float32)


def _bytes_ref(q: Array, keys: Array, values: Array, keys_scale: Array, values_scale: Array, **given: Any) -> Array:
    kv, blocks, _, block = keys.shape
    wide_keys = keys.astype(np.float64) * keys_scale.reshape(kv, blocks, 1, block)
    return _ref(q, wide_keys, values.astype(np.float64) * values_scale[:, :, None], **given)


def _seen(n: int, slots: int, start: int, window: int) -> Array:
    """Which slots each token sees, [n, slots]: at least that of itself."""
    seen = np.zeros((n, slots), bool)
    for k in range(n):
        now = start + k
        seen[k, np.arange(max(now - window + 1, 0) if window else 0, now + 1) % slots] = True
    return seen


def _loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    return attention_loops(name, Shape.of(types, given))


_T = TensorType
_N: Dim = Var("n", 1, 5).expr
_P: Dim = Var("pos", 0, 11).expr


def _sample(n: Dim, heads: int, kv: int, size: int, slots: int, start: Dim, kind: DType = F32, **given: Any) -> Any:
    block = math.gcd(slots, 8)
    keys, values = (kv, slots // block, size, block), (kv, slots, size)
    types = [_T(F32, (n, heads, size)), _T(kind, keys), _T(kind, values)]
    types += [_T(F32, (kv, slots))] * (2 if kind == I8 else 0)
    return sample(*types, start=start, **{"window": 0, "ring": False, "scale": 0.5, "cap": 0.0, **given})


define(
    OpDef(
        "attend",
        ("q", "keys", "values"),
        _infer,
        _ref,
        _loops,
        samples=(
            _sample(_N, 4, 2, 4, 16, _P),
            _sample(1, 3, 1, 8, 32, _P, scale=0.25, cap=2.0),
            _sample(_N, 2, 2, 2, 16, _P, window=3),
            _sample(_N, 2, 1, 4, 8, _P, window=4, ring=True),
            _sample(3, 1, 1, 3, 7, 2),
            _sample(_N, 4, 2, 4, 16, _P, F16),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "attend_bytes",
        ("q", "keys", "values", "keys_scale", "values_scale"),
        _bytes_infer,
        _bytes_ref,
        _loops,
        samples=(
            _sample(_N, 4, 2, 4, 16, _P, I8, scale=0.01),
            _sample(1, 3, 1, 8, 32, _P, I8, scale=0.004, cap=2.0),
            _sample(_N, 2, 1, 4, 8, _P, I8, window=4, ring=True, scale=0.01),
        ),
        kind=OPAQUE,
    )
)
