"""The documents: links lead somewhere, and every verb of the command is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sdk.cli import VERBS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md")])
FRAGMENT = re.compile(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:|#", target):
            continue
        assert (path.parent / target.split("#")[0]).exists(), f"{path.name} links to {target}"


def test_readme_explains_every_verb() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [verb for verb in VERBS if f"sdk {verb}" not in readme]
    assert not missing


def test_changelog_fragments_are_named_well() -> None:
    fragments = list((ROOT / "changelog.d").iterdir())
    assert fragments
    for path in fragments:
        assert FRAGMENT.fullmatch(path.name), path.name
        assert path.read_text(encoding="utf-8").strip()
