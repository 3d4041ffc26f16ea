"""Writes the generated parts of the clients, or compares them with the document.

usage: generate.py check|write
"""

from __future__ import annotations

import sys
from pathlib import Path

import document
import in_java
import in_python
import in_typescript

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = (in_python, in_typescript, in_java)


def main(action: str) -> int:
    read = document.read(ROOT / "docs/openapi.json")
    made: dict[str, str] = {}
    for language in LANGUAGES:
        made |= language.files(read)
    folders = {(ROOT / path).parent for path in made}
    present = {str(path.relative_to(ROOT)) for folder in folders for path in generated(folder)}
    stale = sorted(present - set(made))
    differing = sorted(path for path, text in made.items() if current(ROOT / path) != text)
    if action == "write":
        for path in stale:
            (ROOT / path).unlink()
        for path in differing:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(made[path], "utf-8")
        print(f"{len(made)} files follow from the document, {len(differing)} written, {len(stale)} removed")
        return 0
    for path in (*differing, *stale):
        print(f"{path}: differs from docs/openapi.json: run `cargo xtask clients --write`")
    return 1 if differing or stale else 0


def generated(folder: Path) -> list[Path]:
    """Files of a folder that say that they were generated."""
    files = [path for path in folder.glob("*.*") if path.is_file()] if folder.is_dir() else []
    return [path for path in files if "by `cargo xtask clients --write`" in path.read_text("utf-8")[:400]]


def current(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


if __name__ == "__main__":
    if sys.argv[1:] not in (["check"], ["write"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
