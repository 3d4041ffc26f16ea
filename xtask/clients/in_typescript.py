"""Types and operations in TypeScript."""

from __future__ import annotations

from document import Document, Field, Operation, Type, camel, pascal
from text import NOTE, block_comment

SCALARS = {"string": "string", "time": "string", "integer": "number", "number": "number", "boolean": "boolean"}
FOLDER = "clients/typescript/src/generated"


def files(document: Document) -> dict[str, str]:
    return {f"{FOLDER}/types.ts": types(document), f"{FOLDER}/operations.ts": operations(document)}


def types(document: Document) -> str:
    lines = [f"// {NOTE}", ""]
    lines += block_comment("Any other text. Later services may answer values that this client does not know.", "")
    lines.append("export type Unknown = string & Record<never, never>;")
    for one in document.enums:
        lines += ["", *block_comment(one.about, "")]
        lines.append(f"export type {one.name} =")
        lines += [f'  | "{value}"' for value in one.values]
        lines.append("  | Unknown;")
    for made in document.objects:
        lines += ["", *block_comment(made.about, ""), f"export interface {made.name} {{"]
        for part in made.fields:
            lines += block_comment(part.about, "  ") if part.about else []
            mark = "" if part.required else "?"
            null = "" if part.required or not nullable(part) else " | null"
            name = part.wire if part.wire.isidentifier() else f'"{part.wire}"'
            lines.append(f"  {name}{mark}: {kind(part.type)}{null};")
        lines.append("}")
    lines += ["", *block_comment("Page of a list.", ""), "export interface Page<T> {", "  data: T[];"]
    lines += block_comment("Cursor of the next page; absent on the last one.", "  ") + ["  next?: string | null;"]
    about = "Whether everything decided before the request is in the list. Absent if it does not depend on settlement."
    lines += block_comment(about, "  ") + ["  settled?: boolean | null;", "}"]
    for operation in document.operations:
        if operation.query:
            lines += ["", *block_comment(f"Filters of `{operation.id}`.", "")]
            lines.append(f"export interface {query_name(operation)} {{")
            for part in operation.query:
                lines += block_comment(part.about, "  ") if part.about else []
                lines.append(f"  {part.wire}?: {kind(part.type)};")
            lines.append("}")
    return "\n".join(lines) + "\n"


def nullable(part: Field) -> bool:
    return part.type.nullable


def kind(made: Type) -> str:
    if made.kind == "ref":
        return made.name
    if made.kind == "object":
        return made.name
    if made.kind == "list" and made.of:
        return f"{kind(made.of)}[]"
    if made.kind == "map" and made.of:
        null = " | null" if made.of.nullable else ""
        return f"Record<string, {kind(made.of)}{null}>"
    if made.kind == "page" and made.of:
        return f"Page<{kind(made.of)}>"
    return SCALARS.get(made.kind, "unknown")


def query_name(operation: Operation) -> str:
    return f"{pascal(operation.id)}Query"


def operations(document: Document) -> str:
    used = set()
    methods = []
    for operation in document.operations:
        for made in (operation.body, operation.answer and (operation.answer.of or operation.answer)):
            if made:
                used.add(made.name)
        if operation.query:
            used.add(query_name(operation))
        if operation.answer and operation.answer.kind == "page" and not operation.is_list:
            used.add("Page")
        methods += ["", *method(operation)]
    lines = [f"// {NOTE}", "", 'import type { Pager } from "../pager.js";', "import type {"]
    lines += [f"  {name}," for name in sorted(used)]
    lines += ['} from "./types.js";', "", "const part = encodeURIComponent;", ""]
    lines += block_comment("Request of one operation.", "")
    lines += ["export interface Call {", "  method: string;", "  path: string;"]
    lines += ["  query?: object;", "  body?: unknown;"]
    lines += block_comment("Whether the request has an idempotency key.", "  ") + ["  keyed?: boolean;"]
    lines += block_comment("Whether the last page has a cursor, too: later entries follow it.", "  ")
    lines += ["  endless?: boolean;"]
    lines += block_comment("Headers beside those of all requests.", "  ") + ["  headers?: Record<string, string>;", "}"]
    lines += ["", *block_comment("The operations of the document.", ""), "export abstract class Operations {"]
    lines += block_comment("Carries a request out, and repeats it until an answer decides it.", "  ")
    lines += ["  protected abstract json<T>(call: Call): Promise<T>;", ""]
    lines += block_comment("Reads a list page by page.", "  ")
    lines += ["  protected abstract pages<T>(call: Call): Pager<T>;", *methods, "}"]
    return "\n".join(lines) + "\n"


def method(operation: Operation) -> list[str]:
    arguments = [f"{camel(name)}: {kind(made)}" for _, name, made in operation.parts]
    fields = [f'method: "{operation.method}"', f"path: {path(operation)}"]
    if operation.body:
        arguments.append(f"body{'' if operation.body_required else '?'}: {operation.body.name}")
        fields.append("body")
    if operation.query:
        arguments.append(f"query: {query_name(operation)} = {{}}")
        fields.append("query")
    if operation.is_keyed:
        fields.append("keyed: true")
    answer = kind(operation.answer) if operation.answer else "void"
    result, function = f"Promise<{answer}>", "json"
    if operation.is_list and operation.answer and operation.answer.of:
        result, function = f"Pager<{operation.answer.of.name}>", "pages"
        fields += ["endless: true"] if operation.is_endless else []
    head = f"  {operation.id}({', '.join(arguments)}): {result} {{"
    return [*block_comment(operation.about, "  "), head, *returned(function, fields), "  }"]


def returned(function: str, fields: list[str]) -> list[str]:
    one = f"    return this.{function}({{ {', '.join(fields)} }});"
    if len(one) <= 120:
        return [one]
    return [f"    return this.{function}({{", *(f"      {field}," for field in fields), "    });"]


def path(operation: Operation) -> str:
    text = operation.path
    for wire, name, _ in operation.parts:
        text = text.replace(f"{{{wire}}}", f"${{part({camel(name)})}}", 1)
    return f"`{text}`" if operation.parts else f'"{text}"'
