"""One function in the place of several that are alike but for numbers."""

from sdk.compiler.passes.merging.generalise import Different, Shared, generalise, proved
from sdk.compiler.passes.merging.groups import Group, Limits, grouped
from sdk.compiler.passes.merging.unroll_hot_loops import unrolled

__all__ = ["Different", "Group", "Limits", "Shared", "generalise", "grouped", "proved", "unrolled"]
