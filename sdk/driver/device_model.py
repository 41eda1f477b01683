"""What a device says of a model, held against the build: it has the names of the build, or is another model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sdk.compiler.sym import Var, max_value
from sdk.compiler.sym.text import parse_dim
from sdk.devices.messages import ModelInfo
from sdk.driver.built import Built
from sdk.errors import LinkError
from sdk.text import wire_name

__all__ = ["FRESH_DIM", "as_built"]

FRESH_DIM = "dim "  # how an agent names the dims that a run computes


def as_built(info: ModelInfo, built: Built, entry: str) -> ModelInfo:
    """``info`` with the names that the build gave to tensors and dims, of which long ones are cut on the wire.

    Raises:
        LinkError: the device has other inputs, outputs or dims than the build, or other sizes of its inputs.
    """
    tensors = {wire_name(name): name for name in built.shapes[entry]}
    dims = {wire_name(name): name for name in built.report.dims}
    inputs = {t.name for t in info.inputs}
    fresh = {t.name for t in info.outputs if t.name.startswith(FRESH_DIM)} - {*tensors} - inputs
    _same({t.name for t in info.tensors} - fresh, tensors, "inputs and outputs", whole=True)
    _same((d.name for d in info.dims), dims, "dims", whole=False)
    for dim in info.dims:
        least, most = built.report.dims[dims[dim.name]]
        if (dim.lo, dim.hi) != (least, most):
            raise LinkError(
                f"the device has the model with other bounds of {dims[dim.name]}",
                why=f"{dim.lo} to {dim.hi}, those of the build are {least} to {most}",
                hint="build and flash this model's firmware",
            )
    scope = {name: Var(name, *bounds, built.multiples.get(name, 1)) for name, bounds in built.report.dims.items()}
    for tensor in info.inputs:
        shape = [max_value(parse_dim(text, scope)) for text in built.shapes[entry][tensors[tensor.name]]]
        if list(tensor.shape) != shape:
            raise LinkError(
                f"the device has the model with another size of {tensor.name}",
                why=f"{list(tensor.shape)}, that of the build is {shape}",
                hint="build and flash this model's firmware",
            )
    return replace(
        info,
        inputs=tuple(replace(t, name=tensors[t.name]) for t in info.inputs),
        outputs=tuple(replace(t, name=tensors.get(t.name, t.name)) for t in info.outputs),
        dims=tuple(replace(d, name=dims[d.name]) for d in info.dims),
    )


def _same(found: Iterable[str], wanted: Mapping[str, str], what: str, *, whole: bool) -> None:
    """Check that names on a device are among those of the build, with ``whole`` all of them."""
    names = set(found)
    if names - set(wanted) or (whole and names != set(wanted)):
        raise LinkError(
            "the device has another model than the one that was built",
            why=f"its {what} are {', '.join(sorted(names))}, those of the build {', '.join(sorted(wanted))}",
            hint="build and flash this model's firmware",
        )
