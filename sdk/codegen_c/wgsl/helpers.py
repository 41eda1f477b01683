"""Functions that kernels in WGSL call: what the language lacks of integers of 64 bits and of exact arithmetic."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["helpers_of"]

_TEXTS: Final = (
    "fn zero() -> u32 { return numbers[ZERO]; }",
    "fn exact(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ zero()); }",
    """fn umul_wide(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let one = (a & 0xffffu) * (b >> 16u);
  let two = (a >> 16u) * (b & 0xffffu);
  let middle = (low >> 16u) + (one & 0xffffu) + (two & 0xffffu);
  let high = (a >> 16u) * (b >> 16u) + (one >> 16u) + (two >> 16u) + (middle >> 16u);
  return vec2<u32>((middle << 16u) | (low & 0xffffu), high);
}""",
    """fn smul_wide(a: u32, b: u32) -> vec2<u32> {
  let wide = umul_wide(a, b);
  return vec2<u32>(wide.x, wide.y - select(0u, b, a >= 0x80000000u) - select(0u, a, b >= 0x80000000u));
}""",
    """fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < b.x));
}""",
    """fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}""",
    "fn neg64(a: vec2<u32>) -> vec2<u32> { return add64(~a, vec2<u32>(1u, 0u)); }",
    """fn mul64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let wide = umul_wide(a.x, b.x);
  return vec2<u32>(wide.x, wide.y + a.x * b.y + a.y * b.x);
}""",
    """fn shl64(a: vec2<u32>, by: u32) -> vec2<u32> {
  let moved = vec2<u32>(a.x << (by & 31u), (a.y << (by & 31u)) | ((a.x >> 1u) >> (31u - (by & 31u))));
  return select(moved, vec2<u32>(0u, moved.x), (by & 32u) != 0u);
}""",
    """fn shr64(a: vec2<u32>, by: u32) -> vec2<u32> {
  let moved = vec2<u32>((a.x >> (by & 31u)) | ((a.y << 1u) << (31u - (by & 31u))), a.y >> (by & 31u));
  return select(moved, vec2<u32>(moved.y, 0u), (by & 32u) != 0u);
}""",
    """fn sar64(a: vec2<u32>, by: u32) -> vec2<u32> {
  let sign = select(0u, 0xffffffffu, a.y >= 0x80000000u);
  return shr64(a ^ vec2<u32>(sign), by) ^ vec2<u32>(sign);
}""",
    "fn ult64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }",
    """fn slt64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return ult64(a ^ vec2<u32>(0u, 0x80000000u), b ^ vec2<u32>(0u, 0x80000000u));
}""",
    """fn divided64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  var quotient = a;
  var rest = vec2<u32>(0u, 0u);
  for (var k = 0u; k < 64u; k++) {
    let out = rest.y >> 31u;
    rest = vec2<u32>((rest.x << 1u) | (quotient.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
    quotient = vec2<u32>(quotient.x << 1u, (quotient.y << 1u) | (quotient.x >> 31u));
    if (out != 0u || !ult64(rest, b)) {
      rest = sub64(rest, b);
      quotient.x |= 1u;
    }
  }
  return vec4<u32>(quotient, rest);
}""",
    "fn udiv64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divided64(a, b).xy; }",
    "fn umod64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divided64(a, b).zw; }",
    "fn size64(a: vec2<u32>) -> vec2<u32> { return select(a, neg64(a), a.y >= 0x80000000u); }",
    """fn sdiv64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let found = divided64(size64(a), size64(b)).xy;
  return select(found, neg64(found), ((a.y ^ b.y) >> 31u) != 0u);
}""",
    """fn real_of_u64(a: vec2<u32>) -> f32 {
  if (a.y == 0u) { return f32(a.x); }
  let by = firstLeadingBit(a.y) + 1u;
  let kept = shr64(a, by).x;
  let lost = shl64(a, 64u - by);
  return f32(kept | select(0u, 1u, any(lost != vec2<u32>(0u, 0u)))) * bitcast<f32>((by + 127u) << 23u);
}""",
    """fn real_of_s64(a: vec2<u32>) -> f32 {
  let size = real_of_u64(size64(a));
  return select(size, -size, a.y >= 0x80000000u);
}""",
    """fn u64_of_real(x: f32) -> vec2<u32> {
  let word = bitcast<u32>(x);
  let exponent = (word >> 23u) & 255u;
  let whole = vec2<u32>((word & 0x7fffffu) | 0x800000u, 0u);
  if (exponent < 127u) { return vec2<u32>(0u, 0u); }
  if (exponent < 150u) { return vec2<u32>(whole.x >> (150u - exponent), 0u); }
  return shl64(whole, exponent - 150u);
}""",
    """fn s64_of_real(x: f32) -> vec2<u32> {
  let size = u64_of_real(x);
  return select(size, neg64(size), x < 0.0f);
}""",
)
_HELPERS: Final = {text[3 : text.index("(")]: text for text in _TEXTS}


def helpers_of(text: str) -> list[str]:
    """The functions that a text calls, and those that they call, in an order that declares before it uses."""
    wanted: set[str] = set()
    more = [text]
    while more:
        called = set(re.findall(r"\b(\w+)\(", more.pop())) & _HELPERS.keys()
        more += [_HELPERS[name] for name in called - wanted]
        wanted |= called
    return [text for name, text in _HELPERS.items() if name in wanted]
