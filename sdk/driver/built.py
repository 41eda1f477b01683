"""A build as an object and as a folder: sources, what is known of them, and the manifest that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sdk.driver.out_folder import MANIFEST, file_digest, is_own_name, settle
from sdk.driver.sources import Sources, read_files, write_files
from sdk.errors import UsageError
from sdk.profile import OpFacts
from sdk.report import BuildReport

__all__ = ["Built", "load_built", "write_built"]

SCHEMA: Final = 3  # of the manifest


@dataclass(frozen=True)
class Built:
    """Sources of one model for one board, and what is known of them.

    ``entries`` gives for each entry what an agent calls it; ``shapes`` for each entry, and there for each input and
    output by name, its dims as text, in the symbols of the report's dims; ``multiples`` what those dims are a multiple
    of, where that is not 1; ``ops`` what the calls of
    each entry have to do.
    """

    sources: Sources
    report: BuildReport
    entries: Mapping[str, str]
    shapes: Mapping[str, Mapping[str, tuple[str, ...]]]
    multiples: Mapping[str, int]
    ops: Mapping[str, tuple[OpFacts, ...]]


def write_built(folder: Path, built: Built, before: Mapping[str, str] | None = None) -> None:
    """Writes sources, agent sources and the manifest, which tells the contents of all files in ``folder``.

    ``before``: those of the build that it takes the place of. Where the sources are the same, libraries and images of
    that one are as good as new, and stay.
    """
    write_files(folder, built.sources.model)
    write_files(folder / "agent", built.sources.agent)
    contents = {p.relative_to(folder).as_posix(): file_digest(p) for p in folder.rglob("*") if p.is_file()}
    if before and _sources(before) == _sources(contents):
        contents = {**before, **contents}
    manifest = {
        "schema": SCHEMA,
        "prefix": built.sources.prefix,
        "backend": built.sources.backend,
        "model_files": sorted(built.sources.model),
        "agent_files": sorted(built.sources.agent),
        "contents": contents,
        "entries": dict(sorted(built.entries.items())),
        "shapes": {e: {name: list(dims) for name, dims in sorted(of.items())} for e, of in built.shapes.items()},
        "multiples": dict(sorted(built.multiples.items())),
        "ops": {e: [op.to_json() for op in of] for e, of in sorted(built.ops.items())},
        "report": {**built.report.to_json(), "out": None, "files": []},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _sources(contents: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: digest for name, digest in contents.items() if name.endswith((".c", ".h", ".S", ".bin"))}


def load_built(folder: Path) -> Built:
    """The build in ``folder``, as ``sdk build`` wrote it.

    Raises:
        UsageError: the folder holds no build, or one that was changed in a way its manifest does not know.
    """
    settle(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"its manifest has schema {manifest['schema']}, this version reads {SCHEMA}")
        strange = [n for n in (*manifest["model_files"], *manifest["agent_files"]) if not is_own_name(n)]
        if strange:
            raise ValueError(f"its manifest names {strange[0]!r}")
        model = read_files(folder, manifest["model_files"])
        agent = read_files(folder / "agent", manifest["agent_files"])
        report = BuildReport.from_json(manifest["report"])
        shapes = {
            str(entry): {str(name): tuple(map(str, dims)) for name, dims in of.items()}
            for entry, of in manifest["shapes"].items()
        }
        multiples = {str(name): int(value) for name, value in manifest["multiples"].items()}
        ops = {str(entry): tuple(OpFacts(**op) for op in of) for entry, of in manifest["ops"].items()}
        entries = {str(entry): str(name) for entry, name in manifest["entries"].items()}
        sources = Sources(manifest["prefix"], str(manifest["backend"]), model, agent)
        return Built(sources, report, entries, shapes, multiples, ops)
    except FileNotFoundError as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made",
            why=f"it has no {Path(err.filename).name}",
            hint="give the model file, or make a folder of it: sdk build MODEL --board B -o FOLDER",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made",
            why=str(err),
            hint="make it again: sdk build MODEL --board B -o FOLDER",
        ) from None
