"""The OpenAPI document as types and operations, for the generators of the clients."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Sentence of the document about enums of answers. The clients' types say it.
OPEN = "Answers may have further values: treat an unknown one as a value that you do not handle."
# Operations with hand-written methods: claims have several outcomes, and tickets need work. Readiness is for probes:
# its answer with status 503 is no problem.
LEFT_OUT = {"orderUnits", "claimShare", "getSaleTicket", "getRedPacketTicket", "checkReadiness"}
# List whose `next` is never absent, because later events follow it.
ENDLESS = {"listEvents"}
JSON = "application/json"


@dataclass(frozen=True)
class Type:
    """Type of a value. `kind` is a scalar, `object`, `enum`, `list`, `map` or `page`; `of` is its content."""

    kind: str
    name: str = ""
    of: Type | None = None
    nullable: bool = False


@dataclass(frozen=True)
class Field:
    wire: str
    type: Type
    required: bool
    about: str

    @property
    def name(self) -> str:
        return self.wire.replace("-", "_")


@dataclass(frozen=True)
class Enum:
    name: str
    about: str
    values: list[str]
    names: list[str]


@dataclass(frozen=True)
class Object:
    name: str
    about: str
    fields: list[Field]
    # Whether only requests have it.
    is_request: bool
    # Whether absence and null differ.
    is_change: bool


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    about: str
    # Parameters of the path, in order: name in the document, name of the argument in snake case, type.
    parts: list[tuple[str, str, Type]]
    query: list[Field]
    body: Type | None
    body_required: bool
    is_keyed: bool
    answer: Type | None
    is_list: bool
    is_endless: bool


@dataclass
class Document:
    enums: list[Enum] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").replace(" ", "_")


def camel(name: str) -> str:
    first, *rest = snake(name).split("_")
    return first + "".join(word.capitalize() for word in rest)


def pascal(name: str) -> str:
    return name[:1].upper() + camel(name)[1:]


def read(file: Path) -> Document:
    data = json.loads(file.read_text("utf-8"))
    schemas: dict[str, Any] = data["components"]["schemas"]
    operations = [
        (path, method, operation)
        for path, item in sorted(data["paths"].items())
        for method, operation in item.items()
        if "operationId" in operation
    ]
    bodies = {name: operation for *_, operation in operations if (name := body_name(operation))}
    asked = reached(schemas, bodies)
    answered = reached(schemas, names_in([operation["responses"] for *_, operation in operations]))
    answered |= reached(schemas, names_in(data.get("webhooks", {})) - set(bodies))
    changes = {body_name(operation) for _, method, operation in operations if method == "patch"}
    document = Document()
    for name, schema in sorted(schemas.items()):
        if "enum" in schema:
            document.enums.append(enum(name, schema))
        elif page_item(schemas, name) is None:
            is_request = name in asked and name not in answered
            document.objects.append(object_of(schemas, name, is_request, name in changes))
    data_of_events = schemas["WebhookEvent"]["properties"]["data"]
    document.objects.append(object_of({"WebhookEventData": data_of_events}, "WebhookEventData", False, False))
    document.objects.sort(key=lambda one: one.name)
    for path, method, operation in operations:
        made = operation_of(schemas, path, method, operation)
        if made is not None:
            document.operations.append(made)
    return document


def body_name(operation: Any) -> str | None:
    schema = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema", {})
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


def names_in(part: Any) -> set[str]:
    return set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(part)))


def reached(schemas: dict[str, Any], start: Any) -> set[str]:
    """Names of schemas that these refer to, themselves included."""
    found: set[str] = set()
    rest = list(start)
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest.extend(names_in(schemas[name]))
    return found


def about(schema: Any) -> str:
    text = schema.get("description", "").replace(OPEN, "").replace("[`Problem::kind`]", "`kind`")
    return " ".join(text.split())


def enum(name: str, schema: Any) -> Enum:
    values = schema["enum"]
    names = schema.get("x-enum-varnames") or [re.sub(r"[^A-Z0-9]", "_", value.upper()) for value in values]
    return Enum(name, about(schema), values, names)


def page_item(schemas: dict[str, Any], name: str) -> str | None:
    """Name of the items, if this is a page of a list."""
    properties = schemas[name].get("properties", {})
    if not name.endswith("List") or set(properties) != {"data", "next", "settled"}:
        return None
    item: str = properties["data"]["items"]["$ref"].rsplit("/", 1)[1]
    return item


def object_of(schemas: dict[str, Any], name: str, is_request: bool, is_change: bool) -> Object:
    fields: list[Field] = []
    collect(schemas, schemas[name], fields)
    # Required fields come first, in the order of the document's list of them.
    required = needed(schemas, schemas[name])
    fields.sort(key=lambda one: required.index(one.wire) if one.required else len(required))
    return Object(name, about(schemas[name]), fields, is_request, is_change)


def needed(schemas: dict[str, Any], schema: Any) -> list[str]:
    names: list[str] = []
    for part in schema.get("allOf", []):
        names += needed(schemas, schemas[part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part)
    return names + list(schema.get("required", []))


def collect(schemas: dict[str, Any], schema: Any, fields: list[Field]) -> None:
    for part in schema.get("allOf", []):
        collect(schemas, schemas[part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part, fields)
    required = schema.get("required", [])
    for wire, inner in schema.get("properties", {}).items():
        made = type_of(inner)
        if wire == "data" and "properties" in inner:
            made = Type("object", "WebhookEventData")
        fields.append(Field(wire, made, wire in required, about(inner) or about_option(inner)))


def about_option(schema: Any) -> str:
    options = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    return next((text for text in map(about, options) if text), "")


def type_of(schema: Any) -> Type:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return Type("ref", name)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return of_options(options)
    kinds = schema.get("type", "any")
    nullable = isinstance(kinds, list) and "null" in kinds
    kind = next((one for one in kinds if one != "null"), "any") if isinstance(kinds, list) else kinds
    if kind == "array":
        return Type("list", of=type_of(schema["items"]), nullable=nullable)
    if kind == "object":
        values = schema.get("additionalProperties")
        return Type("map", of=type_of(values) if isinstance(values, dict) else Type("any"), nullable=nullable)
    if kind == "string" and schema.get("format") == "date-time":
        return Type("time", nullable=nullable)
    return Type(kind, nullable=nullable)


def of_options(options: list[Any]) -> Type:
    """A reference beside `null`, or an enum beside any other text."""
    nullable = any("null" in option.get("type", "") for option in options)
    references = [option for option in options if "$ref" in option]
    if references:
        return Type("ref", references[0]["$ref"].rsplit("/", 1)[1], nullable=nullable)
    return Type("string", nullable=nullable)


def operation_of(schemas: dict[str, Any], path: str, method: str, operation: Any) -> Operation | None:
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    contents = [answer.get("content", {}) for answer in answers]
    is_empty = all(not content for content in contents)
    if operation["operationId"] in LEFT_OUT or not (is_empty or any(JSON in content for content in contents)):
        return None
    answer = None
    if not is_empty:
        name = contents[0][JSON]["schema"]["$ref"].rsplit("/", 1)[1]
        item = page_item(schemas, name)
        answer = Type("page", of=Type("ref", item)) if item else Type("ref", name)
    parameters = operation.get("parameters", [])
    query = [
        Field(one["name"], type_of(one["schema"]), False, about(one)) for one in parameters if one["in"] == "query"
    ]
    body = body_name(operation)
    text = " ".join(operation.get("summary", "").split())
    details = about(operation)
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        about=f"{text}\n\n{details}" if details else text,
        parts=parts(path, parameters),
        query=query,
        body=Type("ref", body) if body else None,
        body_required=operation.get("requestBody", {}).get("required", False),
        is_keyed=any(one["name"] == "Idempotency-Key" for one in parameters),
        answer=answer,
        is_list=answer is not None and answer.kind == "page" and any(one.wire == "after" for one in query),
        is_endless=operation["operationId"] in ENDLESS,
    )


def parts(path: str, parameters: list[Any]) -> list[tuple[str, str, Type]]:
    """Parameters of a path. `{id}` is named after the resource before it."""
    types = {one["name"]: type_of(one["schema"]) for one in parameters if one["in"] == "path"}
    found = []
    before = ""
    for part in path.strip("/").split("/"):
        if part.startswith("{"):
            wire = part.strip("{}")
            name = f"{snake(before.removesuffix('s'))}_id" if wire == "id" else wire
            found.append((wire, name, types[wire]))
        before = part
    return found
