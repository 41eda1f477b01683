"""The operators that are imported, read from the tables of the importers: docs/operators.md is made of it.

Run as a program it writes that page again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import onnx

from sdk.frontends.onnx.functions import STANDARD
from sdk.frontends.onnx.operators import OPERATORS as ONNX
from sdk.frontends.onnx.refused import REFUSED as ONNX_REFUSED
from sdk.frontends.tflite.context import OperatorSpec
from sdk.frontends.tflite.operators import OPERATORS as TFLITE
from sdk.frontends.tflite.operators.custom import CUSTOM
from sdk.frontends.torch.operators import OPERATORS as TORCH
from sdk.frontends.torch.refused import REFUSED

PAGE = Path(__file__).resolve().parent / "operators.md"
OLDEST_OPSET = 7
UNSIGNED = {"lower": "as i8", "follow": "as its inputs", "convert": "both", "keep": "as u8"}


def page() -> str:
    """The page."""
    return "\n".join([
        "# Operators that are imported",
        "",
        "Made from the tables of the importers by `python docs/operators.py`; a test says when it is stale. A row says",
        "that there is an importer: what that takes of types, attributes and shapes it says itself, with the reason",
        "and what helps, and `sdk inspect MODEL` prints that for all operators of a model at once.",
        "",
        *_tflite(), "", *_onnx(), "", *_torch(), "",
    ])  # fmt: skip


def _tflite() -> Iterator[str]:
    rows = [
        (
            name, str(spec.max_inputs or "any"), "yes" if spec.quantised else "", "yes" if spec.real else "",
            UNSIGNED[spec.unsigned] if spec.quantised else "",
        )
        for name, spec in sorted(TFLITE.items())
    ]  # fmt: skip
    yield f"## TensorFlow Lite: {len(rows)}"
    yield ""
    yield "Quantised tensors are integers of 8 or 16 bits with a scale; real ones are floats, other integers and truth"
    yield "values, which stand for themselves. The last column says how tensors of u8 are computed."
    yield ""
    yield from _table(("operator", "inputs, at most", "quantised", "real", "u8"), rows)
    yield ""
    yield "Custom operators, by the code that files have for them:"
    yield ""
    yield from _table(("operator", "what it is"), [(name, _first_line(spec)) for name, spec in sorted(CUSTOM.items())])


def _first_line(spec: OperatorSpec) -> str:
    """What the importer of a custom operator says of it, without its name."""
    text = " ".join((getattr(spec.real, "__doc__", None) or "").split("\n\n")[0].split())
    return text.partition(": ")[2] or text


def _onnx() -> Iterator[str]:
    schemas: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
        schemas.setdefault(key, []).append(schema)
    own = [(key, _versions(schemas.get(key, ()))) for key in sorted(ONNX)]
    others = [(key, _versions(found)) for key, found in sorted(schemas.items()) if key not in ONNX and _defined(found)]
    others += [(key, "") for key in sorted(STANDARD)]
    yield f"## ONNX: {len(own)}, and {len(others)} that are expanded"
    yield ""
    yield f"Versions are those of the operator that models of opset {OLDEST_OPSET} and newer use, as onnx"
    yield f"{onnx.__version__} knows them; without any it is another domain's."
    yield ""
    yield from _table(("operator", "versions"), own)
    yield ""
    yield "These are defined by other operators, in ONNX itself, and imported as those, as far as those are:"
    yield ""
    yield from _table(("operator", "versions"), others)
    yield ""
    yield "These are refused for what they are:"
    yield ""
    reasons = {key: why for key, (why, _) in sorted(ONNX_REFUSED.items())}
    yield from _table(("operator", "why"), reasons.items())


def _versions(schemas: Iterable[onnx.defs.OpSchema]) -> str:
    """The versions that models use which are not too old."""
    since = sorted({s.since_version for s in schemas})
    first = max((v for v in since if v <= OLDEST_OPSET), default=0)
    return ", ".join(str(v) for v in since if v >= first)


def _defined(schemas: Sequence[onnx.defs.OpSchema]) -> bool:
    """Whether the newest version is a function of other operators, of the domains of networks."""
    newest = max(schemas, key=lambda s: s.since_version)
    return not newest.deprecated and (newest.has_function or newest.has_context_dependent_function)


def _torch() -> Iterator[str]:
    yield f"## PyTorch: {len(TORCH)}"
    yield ""
    yield "Overloads of ATen that a program of `torch.export` calls, and `crosslevel.*`, recurrent layers kept whole."
    yield ""
    families: dict[str, list[str]] = {}
    for name in sorted(TORCH):
        base, _, overload = name.removeprefix("aten.").rpartition(".")
        families.setdefault(base, []).append(overload)
    yield from _table(("operator", "overloads"), [(base, ", ".join(all_)) for base, all_ in families.items()])
    yield ""
    yield "These are refused; all other operators of Core ATen are taken."
    yield ""
    rows = [(name.removeprefix("aten."), *reason) for name, reason in REFUSED.items()]
    yield from _table(("operator", "why", "instead"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name, *cells in rows:
        yield f"| `{name}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
