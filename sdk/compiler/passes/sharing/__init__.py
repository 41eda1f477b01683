"""One function in the place of several that are alike but for numbers."""

from sdk.compiler.passes.sharing.generalise import Different, Shared, generalise, proved
from sdk.compiler.passes.sharing.groups import Group, Limits, grouped
from sdk.compiler.passes.sharing.write_out import written_out

__all__ = ["Different", "Group", "Limits", "Shared", "generalise", "grouped", "proved", "written_out"]
