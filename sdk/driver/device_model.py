"""What a device says of a model, held against the build: it has the names of the build, or is another model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sdk.compiler.sym import max_value
from sdk.devices.messages import MAX_TEXT, ModelInfo
from sdk.driver.built import Built
from sdk.errors import LinkError
from sdk.text import wire_name

__all__ = ["FRESH_DIM", "as_built"]

FRESH_DIM = "dim "  # how an agent names the dims that a run computes


def as_built(info: ModelInfo, built: Built, entry: str) -> ModelInfo:
    """``info`` with the names that the build gave to tensors and dims, of which long ones are cut on the wire.

    Raises:
        LinkError: the device has other inputs, outputs or dims than the build, other sizes of its inputs, or was built
            from another file.
    """
    own = built.entries[entry]
    tensors = {wire_name(name): name for name in own.shapes}
    dims = {wire_name(var.name): var for var in own.dims}
    inputs = {t.name for t in info.inputs}
    fresh = {t.name for t in info.outputs if t.name.startswith(FRESH_DIM)} - {*tensors} - inputs
    _same({t.name for t in info.tensors} - fresh, tensors, "inputs and outputs")
    _same((d.name for d in info.dims), dims, "dims")
    for dim in info.dims:
        var = dims[dim.name]
        if (dim.lo, dim.hi) != (var.lo, var.hi):
            raise LinkError(
                f"the device has the model with other bounds of {var.name}",
                why=f"{dim.lo} to {dim.hi}, those of the build are {var.lo} to {var.hi}",
                hint="build and flash this model's firmware",
            )
    for tensor in info.inputs:
        shape = [max_value(dim) for dim in own.shapes[tensors[tensor.name]]]
        if list(tensor.shape) != shape:
            raise LinkError(
                f"the device has the model with another size of {tensor.name}",
                why=f"{list(tensor.shape)}, that of the build is {shape}",
                hint="build and flash this model's firmware",
            )
    wanted = built.sources.model_hash
    if wanted is not None and info.hash != wanted[:MAX_TEXT]:
        raise LinkError(
            f"the device has another version of the model {info.name}",
            why=f"it was built from a file with the SHA-256 {info.hash[:12]}..., this one has {wanted[:12]}...",
            hint="build and flash this model's firmware",
        )
    return replace(
        info,
        inputs=tuple(replace(t, name=tensors[t.name]) for t in info.inputs),
        outputs=tuple(replace(t, name=tensors.get(t.name, t.name)) for t in info.outputs),
        dims=tuple(replace(d, name=dims[d.name].name) for d in info.dims),
    )


def _same(found: Iterable[str], wanted: Iterable[str], what: str) -> None:
    """Check that the names on a device are those of the build."""
    names = set(found)
    if names != set(wanted):
        raise LinkError(
            "the device has another model than the one that was built",
            why=f"its {what} are {', '.join(sorted(names))}, those of the build {', '.join(sorted(wanted))}",
            hint="build and flash this model's firmware",
        )
