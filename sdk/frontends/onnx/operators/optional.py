"""Optional values and sequences: what is there, and how many, is known at import."""

from __future__ import annotations

from sdk.budget import NODES, check_limit
from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import BOOL, I64
from sdk.compiler.sym import Dim, dmin
from sdk.frontends.builder import contents_of
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op

__all__: list[str] = []


# --- optional values ----------------------------------------------------------------------------------------------


@onnx_op("Optional")
def optional(node: OnnxNode) -> Value:
    """A value that is there, or none."""
    return node.raw(0) if node.given_input(0) else node.builder.sequence(None, node.stem)


def _is_there(node: OnnxNode) -> bool:
    if not node.given_input(0):
        return False
    name = node.raw(0).name
    return node.builder.sequences.get(name, ()) is not None


@onnx_op("OptionalGetElement")
def get_element(node: OnnxNode) -> Value:
    """The value itself."""
    if not _is_there(node):
        node.fail("its optional value is not there")
    return node.raw(0)


@onnx_op("OptionalHasElement")
def has_element(node: OnnxNode) -> Value:
    """Whether the node is given a value."""
    return node.known(contents_of([int(_is_there(node))], BOOL, ()))


# --- sequences ----------------------------------------------------------------------------------------------------


def _parts(node: OnnxNode) -> tuple[Value, ...]:
    """The elements of the sequence that is input 0."""
    found = node.builder.sequences.get(node.raw(0).name)
    if found is None:
        node.fail("its input is no sequence")
    return found


def _place(node: OnnxNode, k: int, count: int, last: int) -> int:
    """The position that input ``k`` gives, ``last`` without it; negative ones count from the end of ``count``."""
    if not node.given_input(k):
        return last
    (found,) = node.dims(k)
    if not isinstance(found, int) or not -count <= found <= max(last, 0):
        node.fail(f"the position {found} in a sequence of {count}")
    return found + count if found < 0 else found


@onnx_op("SequenceEmpty", "SequenceConstruct")
def sequence_construct(node: OnnxNode) -> Value:
    """A sequence of the inputs."""
    return node.builder.sequence(tuple(node.raw(k) for k in range(node.count)), node.stem)


@onnx_op("SequenceInsert")
def sequence_insert(node: OnnxNode) -> Value:
    """With one more element, by default at the end."""
    parts = _parts(node)
    at = _place(node, 2, len(parts), len(parts))
    return node.builder.sequence((*parts[:at], node.raw(1), *parts[at:]), node.stem)


@onnx_op("SequenceErase")
def sequence_erase(node: OnnxNode) -> Value:
    """With one element less, by default the last."""
    parts = _parts(node)
    if not parts:
        node.fail("its sequence is empty")
    at = _place(node, 1, len(parts), len(parts) - 1)
    return node.builder.sequence((*parts[:at], *parts[at + 1 :]), node.stem)


@onnx_op("SequenceAt")
def sequence_at(node: OnnxNode) -> Value:
    """One element."""
    parts = _parts(node)
    if not parts:
        node.fail("its sequence is empty")
    return parts[_place(node, 1, len(parts), len(parts) - 1)]


@onnx_op("SequenceLength")
def sequence_length(node: OnnxNode) -> Value:
    """The number of elements."""
    return node.known(contents_of([len(_parts(node))], I64, ()))


@onnx_op("ConcatFromSequence")
def concat_from_sequence(node: OnnxNode) -> Value:
    """The elements after one another along an axis, a new one if the node says so."""
    given = _parts(node)
    parts = [node.value(v) for v in given]
    if not parts:
        node.fail("its sequence is empty")
    rank, new = parts[0].type.rank, node.int("new_axis", 0)
    axis = node.axis(node.int("axis", 0), rank + 1 if new else rank)
    if new:
        shapes = [(*v.type.shape[:axis], 1, *v.type.shape[axis:]) for v in parts]
        parts = [node.call("reshape", v, shape=shape) for v, shape in zip(parts, shapes, strict=True)]
    y = node.call("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    if given[0].name in node.builder.narrow:
        node.builder.narrow[y.name] = node.builder.narrow[given[0].name]
    return y


@onnx_op("SplitToSequence")
def split_to_sequence(node: OnnxNode) -> Value:
    """Parts of an axis: of one size but for the last, of sizes given, or single ones, perhaps without the axis."""
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.type.rank)
    extent = x.type.shape[axis]
    sizes: tuple[Dim, ...] = node.dims(1) if node.given_input(1) else (1,)
    if not node.given_input(1) or node.type(1).rank == 0:
        if not isinstance(extent, int) or not isinstance(sizes[0], int) or sizes[0] < 1:
            node.fail(f"how many parts of {sizes[0]} an axis of {extent} has must be a number")
        step, count = sizes[0], -(-extent // sizes[0])
        check_limit(NODES, count, f"an axis of {extent} elements in parts of {step}")
        sizes = tuple(dmin(step, extent - k * step) for k in range(count))
    found, begin = [], 0
    for size in sizes:
        if not isinstance(size, int) or size < 0:
            node.fail(f"a part of {size} elements")
        piece = part(node, x, axis, begin, size)
        if not node.given_input(1) and not node.int("keepdims", 1):
            piece = node.call("reshape", piece, shape=(*x.type.shape[:axis], *x.type.shape[axis + 1 :]))
        found.append(piece)
        begin += size
    if begin != extent:
        node.fail(f"the parts have {begin} elements together, the axis {extent}")
    return node.builder.sequence(tuple(found), node.stem)
