"""A build as an object and as a folder: sources, what is known of them, and the manifest that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from sdk.compiler.sym import Dim, Var
from sdk.compiler.sym.text import parse_dim
from sdk.driver.out_folder import MANIFEST, file_digest, finish_interrupted, is_own_name
from sdk.driver.sources import Sources, read_files, write_files
from sdk.errors import UsageError
from sdk.report import BuildReport
from sdk.source import ParseError
from sdk.toolchains import Blob

__all__ = ["Built", "BuiltEntry", "OpFacts", "load_built", "write_built"]

SCHEMA: Final = 4  # of the manifest


@dataclass(frozen=True)
class OpFacts:
    """One call: ``index`` of its hooks, ``step`` of ``sdk memory``, the kernel it calls, the ``kind`` of function that
    it was before scheduling, the operators of the model that it computes, its multiply-accumulates, and the ``bytes``
    that it reads and writes at least once. ``live_bytes`` of the arena are in use during it, at the upper bounds."""

    index: int
    step: int
    name: str
    kind: str
    source_ops: str
    macs: Dim
    bytes: Dim
    live_bytes: int


@dataclass(frozen=True)
class BuiltEntry:
    """An entry, for those who call it.

    Attributes:
        name: what an agent calls it.
        dims: those that a caller gives.
        fresh: those that a run computes.
        shapes: those of inputs and outputs by name, in these dims.
        ops: what its calls have to do, in order.
        macs: multiply-accumulates of the model as imported; None where they are not known.
    """

    name: str
    dims: tuple[Var, ...]
    fresh: tuple[Var, ...]
    shapes: Mapping[str, tuple[Dim, ...]]
    ops: tuple[OpFacts, ...]
    macs: Dim | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry in a manifest: dims are text."""
        return {
            "name": self.name,
            "dims": [[v.name, v.lo, v.hi, v.multiple] for v in self.dims],
            "fresh": [[v.name, v.lo, v.hi, v.multiple] for v in self.fresh],
            "shapes": {tensor: [str(d) for d in shape] for tensor, shape in self.shapes.items()},
            "macs": None if self.macs is None else str(self.macs),
            "ops": [{**asdict(op), "macs": str(op.macs), "bytes": str(op.bytes)} for op in self.ops],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BuiltEntry:
        """The entry that ``to_json`` wrote.

        Raises:
            ParseError, ValueError, KeyError, TypeError: it did not.
        """
        dims, fresh = (tuple(Var(*found) for found in data[kind]) for kind in ("dims", "fresh"))
        scope = {v.name: v for v in (*dims, *fresh)}

        def dim(text: str) -> Dim:
            return parse_dim(text, scope)

        shapes = {str(tensor): tuple(map(dim, shape)) for tensor, shape in data["shapes"].items()}
        ops = tuple(OpFacts(**{**op, "macs": dim(op["macs"]), "bytes": dim(op["bytes"])}) for op in data["ops"])
        macs = None if data["macs"] is None else dim(data["macs"])
        return cls(str(data["name"]), dims, fresh, shapes, ops, macs)


@dataclass(frozen=True)
class Built:
    """Sources of one model for one board, and what is known of them and of each entry by name."""

    sources: Sources
    report: BuildReport
    entries: Mapping[str, BuiltEntry]


class _Version(msgspec.Struct, frozen=True):
    """What every version of that file begins with."""

    schema: int


class _Manifest(msgspec.Struct, frozen=True):
    """What is read again of the file that ``write_built`` writes."""

    prefix: str
    backend: str
    model_files: list[str]
    agent_files: list[str]
    entries: dict[str, dict[str, Any]]
    report: BuildReport


def write_built(folder: Path, built: Built, before: Mapping[str, str] | None = None) -> None:
    """Writes sources, agent sources and the manifest, which tells the contents of all files in ``folder``.

    ``before``: those of the build that it takes the place of. Where the sources are the same, libraries and images of
    that one are as good as new, and stay.
    """
    write_files(folder, built.sources.model)
    write_files(folder / "agent", built.sources.agent)
    known = {name: blob.digest for name, blob in built.sources.model.items() if isinstance(blob, Blob)}
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    contents = {name: known.get(name) or file_digest(p) for name, p in found.items()}
    if before and _sources(before) == _sources(contents):
        contents = {**before, **contents}
    manifest = {
        "schema": SCHEMA,
        "prefix": built.sources.prefix,
        "backend": built.sources.backend,
        "model_files": sorted(built.sources.model),
        "agent_files": sorted(built.sources.agent),
        "contents": contents,
        "entries": {name: entry.to_json() for name, entry in built.entries.items()},
        "report": {**built.report.to_json(), "out": None, "files": []},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _sources(contents: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: digest for name, digest in contents.items() if name.endswith((".c", ".h", ".S", ".bin"))}


def load_built(folder: Path, written: Sources | None = None) -> Built:
    """The build in ``folder``, as ``sdk build`` wrote it. ``written``: its sources, where they were written just
    now and need not be read.

    Raises:
        UsageError: the folder holds no build, or one that was changed in a way its manifest does not know.
    """
    finish_interrupted(folder)
    try:
        manifest = (folder / MANIFEST).read_bytes()
        schema = msgspec.json.decode(manifest, type=_Version).schema
        if schema != SCHEMA:
            raise ValueError(f"its manifest has schema {schema}, this version reads {SCHEMA}")
        m = msgspec.json.decode(manifest, type=_Manifest)
        strange = [n for n in (*m.model_files, *m.agent_files) if not is_own_name(n)]
        if strange:
            raise ValueError(f"its manifest names {strange[0]!r}")
        sources = written or Sources(
            m.prefix, m.backend, read_files(folder, m.model_files), read_files(folder / "agent", m.agent_files)
        )
        entries = {name: BuiltEntry.from_json(entry) for name, entry in m.entries.items()}
        return Built(sources, m.report, entries)
    except FileNotFoundError as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made",
            why=f"it has no {Path(err.filename).name}",
            hint="give the model file, or make a folder of it: sdk build MODEL --board B -o FOLDER",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ParseError) as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made",
            why=str(err),
            hint="make it again: sdk build MODEL --board B -o FOLDER",
        ) from None
