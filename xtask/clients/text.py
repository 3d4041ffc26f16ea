"""Text of generated files."""

from __future__ import annotations

import textwrap

WIDTH = 120
# First line of each generated file.
NOTE = "Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit."


def wrapped(text: str, prefix: str, first: str | None = None) -> list[str]:
    """Lines of a text with its paragraphs, each after `prefix`."""
    lines = []
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            lines.append(prefix.rstrip())
        start = first if first is not None and not number else prefix
        lines += textwrap.wrap(
            paragraph, WIDTH, initial_indent=start, subsequent_indent=prefix, break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def block_comment(text: str, indent: str) -> list[str]:
    """Comment of TypeScript and Java for documentation."""
    text = text.replace("*/", "* /") or "…"
    one = f"{indent}/** {text} */"
    if "\n" not in text and len(one) <= WIDTH:
        return [one]
    return [f"{indent}/**", *wrapped(text, f"{indent} * "), f"{indent} */"]
