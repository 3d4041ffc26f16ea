"""Types and operations in Java."""

from __future__ import annotations

from document import Document, Enum, Field, Object, Operation, Type, camel, pascal
from text import NOTE, block_comment, wrapped

# Types of values that are always there, and of others.
PLAIN = {"string": "String", "time": "Instant", "integer": "long", "number": "double", "boolean": "boolean"}
BOXED = {**PLAIN, "integer": "Long", "number": "Double", "boolean": "Boolean"}
FOLDER = "clients/java/src/main/java/qiang/client"
IMPORTS = {"Instant": "java.time.Instant", "List": "java.util.List", "Map": "java.util.Map"}


def files(document: Document) -> dict[str, str]:
    made = {f"model/{one.name}": enum(one) for one in document.enums}
    for one in document.objects:
        made[f"model/{one.name}"] = request(one) if one.is_request else record(one)
    for operation in document.operations:
        if operation.query:
            made[f"model/{query_name(operation)}"] = query(operation)
    made["Operations"] = operations(document)
    return {f"{FOLDER}/{name}.java": text for name, text in made.items()}


def unit(package: str, imports: set[str], lines: list[str]) -> str:
    text = "\n".join(lines)
    used = {path for name, path in IMPORTS.items() if f"{name} " in text or f"{name}<" in text} | imports
    head = [f"// {NOTE}", "", f"package {package};", ""]
    named = sorted(used)
    return "\n".join([*head, *(f"import {path};" for path in named), *([""] if named else []), text, ""])


def enum(made: Enum) -> str:
    lines = [*block_comment(made.about, ""), f"public enum {made.name} {{"]
    lines += [f'    {name}("{value}"),' for name, value in zip(made.names, made.values, strict=True)]
    lines += block_comment("A value that this client does not know. Later services may answer further values.", "    ")
    lines += [
        '    UNKNOWN("");', "", "    private final String value;", "", f"    {made.name}(String value) {{",
        "        this.value = value;", "    }", "", *block_comment("The value in JSON.", "    "), "    @JsonValue",
        "    public String value() {", "        return value;", "    }", "",
        *block_comment("The constant of a value in JSON, or {@link #UNKNOWN}.", "    "), "    @JsonCreator",
        f"    public static {made.name} of(String value) {{", f"        for ({made.name} one : values()) {{",
        "            if (one.value.equals(value)) {", "                return one;", "            }", "        }",
        "        return UNKNOWN;", "    }", "}",
    ]
    annotations = "com.fasterxml.jackson.annotation."
    return unit("qiang.client.model", {f"{annotations}JsonCreator", f"{annotations}JsonValue"}, lines)


def record(made: Object) -> str:
    about = [made.about or made.name, ""]
    lines = ["/**", *wrapped(about[0], " * ")]
    if made.fields:
        lines.append(" *")
    for part in made.fields:
        absent = "" if part.required else " May be null."
        text = f"{part.about or part.name}{absent}".replace("*/", "* /")
        lines += wrapped(text, " *     ", f" * @param {camel(part.name)} ")
    lines += [" */", f"public record {made.name}("]
    for number, part in enumerate(made.fields):
        end = "," if number + 1 < len(made.fields) else ") {}"
        lines.append(f'        @JsonProperty("{part.wire}") {declared(part)} {camel(part.name)}{end}')
    if not made.fields:
        lines[-1] += ") {}"
    imports = {"com.fasterxml.jackson.annotation.JsonProperty"} if made.fields else set()
    return unit("qiang.client.model", imports, lines)


def declared(part: Field) -> str:
    plain = part.required and not part.type.nullable
    return kind(part.type, PLAIN if plain else BOXED)


def kind(made: Type, scalars: dict[str, str]) -> str:
    if made.kind in ("ref", "object"):
        return made.name
    if made.kind == "list" and made.of:
        return f"List<{kind(made.of, BOXED)}>"
    if made.kind == "map" and made.of:
        return f"Map<String, {kind(made.of, BOXED)}>"
    return scalars.get(made.kind, "Object")


def request(made: Object) -> str:
    lines = [*block_comment(made.about or made.name, ""), f"public final class {made.name} extends Body {{"]
    needed = [part for part in made.fields if part.required]
    about = "Body with the required fields. The service applies its defaults for all others."
    lines += block_comment(about if needed else "Body without fields.", "    ")
    lines += constructor(made.name, needed)
    for part in needed:
        lines.append(f'        set("{part.wire}", {camel(part.name)});')
    lines.append("    }")
    for part in made.fields:
        if not part.required:
            lines += ["", *setter(made.name, part)]
    return unit("qiang.client.model", set(), [*lines, "}"])


def constructor(name: str, needed: list[Field]) -> list[str]:
    arguments = [f"{kind(part.type, PLAIN)} {camel(part.name)}" for part in needed]
    one = f"    public {name}({', '.join(arguments)}) {{"
    if len(one) <= 120:
        return [one]
    *others, last = arguments
    return [f"    public {name}(", *(f"            {argument}," for argument in others), f"            {last}) {{"]


def setter(owner: str, part: Field) -> list[str]:
    name = camel(part.name)
    return [
        *block_comment(part.about or part.name, "    "),
        f"    public {owner} {name}({kind(part.type, PLAIN)} {name}) {{",
        f'        set("{part.wire}", {name});', "        return this;", "    }",
    ]


def query_name(operation: Operation) -> str:
    return f"{pascal(operation.id)}Query"


def query(operation: Operation) -> str:
    name = query_name(operation)
    lines = [*block_comment(f"Filters of {{@code {operation.id}}}.", ""), f"public final class {name} extends Query {{"]
    for number, part in enumerate(operation.query):
        lines += [*([""] if number else []), *setter(name, part)]
    return unit("qiang.client.model", set(), [*lines, "}"])


def operations(document: Document) -> str:
    methods: list[str] = []
    used: set[str] = set()
    for operation in document.operations:
        answer = operation.answer and (operation.answer.of or operation.answer)
        used |= {made.name for made in (operation.body, answer) if made}
        used |= {query_name(operation)} if operation.query else set()
        methods += method(operation)
    lines = block_comment("The operations of the document.", "") + ["public abstract class Operations {"]
    lines += ["    Operations() {}", ""]
    lines += block_comment("Carries a request out, and repeats it until an answer decides it.", "    ")
    lines += ["    abstract <T> T json(Call call, Class<T> answer);", ""]
    lines += block_comment("The same for a page of a list.", "    ")
    lines += ["    abstract <T> Page<T> page(Call call, Class<T> item);", ""]
    lines += block_comment("Pages of a list, read one after another. An endless list ends with an empty page.", "    ")
    lines += ["    abstract <T> Pager<T> pages(Call call, Class<T> item, boolean endless);", ""]
    lines += block_comment("Part of a path.", "    ")
    lines += ["    static String part(Object value) {", "        return Call.encoded(String.valueOf(value));", "    }"]
    lines += [*methods, "}"]
    return unit("qiang.client", {f"qiang.client.model.{name}" for name in used}, lines)


def method(operation: Operation) -> list[str]:
    names = [f"{kind(made, PLAIN)} {camel(name)}" for _, name, made in operation.parts]
    call = f'new Call("{operation.method}", {path(operation)})'
    if operation.is_keyed:
        call += ".keyed()"
    answer, function, more = "void", "json", ", Void.class"
    if operation.answer:
        answer, more = operation.answer.name, f", {operation.answer.name}.class"
    if operation.answer and operation.answer.of:
        item = operation.answer.of.name
        answer, function, more = f"Page<{item}>", "page", f", {item}.class"
        if operation.is_list:
            answer, function = f"Pager<{item}>", "pages"
            more += ", true" if operation.is_endless else ", false"
    word = "return " if operation.answer else ""
    choices = [(names, call)]
    if operation.body:
        with_body = ([*names, f"{operation.body.name} body"], f"{call}.body(body)")
        choices = [with_body] if operation.body_required else [(names, call), with_body]
    if operation.query:
        choices.append(([*names, f"{query_name(operation)} query"], f"{call}.query(query)"))
    lines: list[str] = []
    for arguments, made in choices:
        lines += ["", *block_comment(operation.about, "    ")]
        lines.append(f"    public {answer} {operation.id}({', '.join(arguments)}) {{")
        one = f"        {word}{function}({made}{more});"
        first, *chain = made.replace(").", ")\n                .").split("\n") if len(one) > 120 else [one]
        split = [f"        Call call = {first}", *chain]
        split[-1] += ";"
        lines += [one] if len(one) <= 120 else [*split, f"        {word}{function}(call{more});"]
        lines.append("    }")
    return lines


def path(operation: Operation) -> str:
    text = f'"{operation.path}"'
    for wire, name, _ in operation.parts:
        text = text.replace(f"{{{wire}}}", f'" + part({camel(name)}) + "', 1)
    return text.replace(' + ""', "")
