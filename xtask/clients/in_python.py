"""Types and operations in Python."""

from __future__ import annotations

from document import Document, Field, Object, Operation, Type, snake
from text import NOTE, wrapped

SCALARS = {"string": "str", "time": "datetime", "integer": "int", "number": "float", "boolean": "bool"}
FOLDER = "clients/python/qiang/generated"


def files(document: Document) -> dict[str, str]:
    return {
        f"{FOLDER}/__init__.py": f'"""{NOTE}"""\n',
        f"{FOLDER}/enums.py": enums(document),
        f"{FOLDER}/models.py": models(document),
        f"{FOLDER}/operations.py": operations(document),
    }


def docstring(text: str, indent: str) -> list[str]:
    text = (text or "…").replace("\\", "\\\\")
    one = f'{indent}"""{text}"""'
    if "\n" not in text and len(one) <= 120:
        return [one]
    return [*wrapped(text, indent, f'{indent}"""'), f'{indent}"""']


def head(about: str) -> list[str]:
    return [f'"""{about}', "", NOTE, '"""', "", "from __future__ import annotations", ""]


def enums(document: Document) -> str:
    lines = head("Enums. Those of answers are open: a value that this client does not know is `is_known` False.")
    lines += ["from ..convert import OpenEnum", "", *names([one.name for one in document.enums])]
    for one in document.enums:
        lines += ["", "", f"class {one.name}(OpenEnum):", *docstring(one.about, "    "), ""]
        lines += [f'    {name} = "{value}"' for name, value in zip(one.names, one.values, strict=True)]
    return "\n".join(lines) + "\n"


def names(public: list[str]) -> list[str]:
    return ["__all__ = [", *(f'    "{name}",' for name in sorted(public)), "]"]


def models(document: Document) -> str:
    known = {one.name for one in document.enums}
    body: list[str] = []
    for made in document.objects:
        body += ["", "", "@dataclass(frozen=True, kw_only=True)", f"class {made.name}:"]
        body += docstring(made.about, "    ")
        if made.fields:
            body.append("")
        for part in made.fields:
            body.append(f"    {part.name}: {declared(made, part)}")
            body += docstring(part.about, "    ") if part.about else []
    text = "\n".join(body)
    lines = head("Bodies of requests and answers.")
    lines += ["from collections.abc import Mapping", "from dataclasses import dataclass, field"]
    lines += ["from datetime import datetime", "from typing import Any", ""]
    lines += ["from ..convert import UNSET, Unset", "from .enums import ("]
    used = {name for name in known if f": {name}" in text or f"[{name}" in text or f", {name}" in text}
    lines += [f"    {name}," for name in sorted(used)]
    lines += [")", "", *names([one.name for one in document.objects])]
    return "\n".join(lines) + "\n" + text + "\n"


def declared(made: Object, part: Field) -> str:
    name = kind(part.type)
    if made.is_request:
        # A user may pass a dictionary with narrower values.
        name = name.replace("dict[", "Mapping[")
    renamed = f'metadata={{"wire": "{part.wire}"}}' if part.wire != part.name else ""
    if part.required:
        null = " | None" if part.type.nullable else ""
        return f"{name}{null}" + (f" = field({renamed})" if renamed else "")
    if made.is_change:
        null = " | None" if part.type.nullable else ""
        return f"{name}{null} | Unset = UNSET"
    default = f"field(default=None, {renamed})" if renamed else "None"
    return f"{name} | None = {default}"


def kind(made: Type) -> str:
    if made.kind in ("ref", "object"):
        return made.name
    if made.kind == "list" and made.of:
        return f"list[{kind(made.of)}]"
    if made.kind == "map" and made.of:
        null = " | None" if made.of.nullable else ""
        return f"dict[str, {kind(made.of)}{null}]"
    if made.kind == "page" and made.of:
        return f"Page[{kind(made.of)}]"
    return SCALARS.get(made.kind, "Any")


def operations(document: Document) -> str:
    known = {one.name for one in document.enums}
    objects = {one.name for one in document.objects}
    body: list[str] = []
    for operation in document.operations:
        body += ["", *method(operation)]
    text = "\n".join(body)
    words = set(text.replace("[", " ").replace("]", " ").replace(",", " ").replace(":", " ").replace(")", " ").split())
    lines = head("The operations of the document.")
    lines += ["from datetime import datetime", "", "from ..call import Caller", "from ..pager import Page, Pager"]
    lines += ["from .enums import ("] + [f"    {name}," for name in sorted(known & words)] + [")"]
    lines += ["from .models import ("] + [f"    {name}," for name in sorted(objects & words)] + [")"]
    lines += ["", "", "class Operations(Caller):", *docstring("The operations of the document.", "    ")]
    return "\n".join(lines) + "\n" + text + "\n"


def method(operation: Operation) -> list[str]:
    arguments = ["self", *(f"{name}: {kind(made)}" for _, name, made in operation.parts)]
    call = [f'"{operation.method}"', path(operation)]
    if operation.body:
        null = "" if operation.body_required else " | None = None"
        arguments.append(f"body: {operation.body.name}{null}")
        call.append("body=body")
    if operation.query:
        arguments.append("*")
        arguments += [f"{snake(part.wire)}: {kind(part.type)} | None = None" for part in operation.query]
        pairs = [f'"{part.wire}": {snake(part.wire)}' for part in operation.query if not paged(operation, part)]
        call.append(dictionary(pairs))
    if operation.is_keyed:
        call.append("keyed=True")
    answer, function = "None", "_nothing"
    if operation.answer:
        answer, function = kind(operation.answer), "_json"
        call.insert(2, operation.answer.name)
    if operation.answer and operation.answer.of:
        function = "_page"
        call[2] = operation.answer.of.name
        if operation.is_list:
            answer, function = f"Pager[{operation.answer.of.name}]", "_pages"
            call = [*call[1:], "after=after", *(["endless=True"] if operation.is_endless else [])]
    lines = signature(snake(operation.id), arguments, answer)
    lines += docstring(operation.about, "        ")
    lines += returned(f"self.{function}", call, answer)
    return lines


def dictionary(pairs: list[str]) -> str:
    one = f"query={{{', '.join(pairs)}}}"
    if len(one) <= 100:
        return one
    inner = "".join(f"                {pair},\n" for pair in pairs)
    return f"query={{\n{inner}            }}"


def paged(operation: Operation, part: Field) -> bool:
    return operation.is_list and part.wire == "after"


def signature(name: str, arguments: list[str], answer: str) -> list[str]:
    one = f"    def {name}({', '.join(arguments)}) -> {answer}:"
    if len(one) <= 120:
        return [one]
    return [f"    def {name}(", *(f"        {argument}," for argument in arguments), f"    ) -> {answer}:"]


def returned(function: str, call: list[str], answer: str) -> list[str]:
    word = "" if answer == "None" else "return "
    one = f"        {word}{function}({', '.join(call)})"
    if len(one) <= 120 and "\n" not in one:
        return [one]
    return [f"        {word}{function}(", *(f"            {argument}," for argument in call), "        )"]


def path(operation: Operation) -> str:
    text = operation.path
    for wire, name, _ in operation.parts:
        text = text.replace(f"{{{wire}}}", f"{{self._part({name})}}", 1)
    return f'f"{text}"' if operation.parts else f'"{text}"'
