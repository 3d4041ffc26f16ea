"""Holds every example of the document against its schema, which the validator does not do."""

import json
import sys

from openapi_schema_validator import OAS31Validator, oas31_format_checker

document = json.load(open(sys.argv[1], encoding="utf-8"))
examples = 0


def check(place, value):
    """Looks for objects with a schema and examples beside it, in all of the document."""
    global examples
    if isinstance(value, list):
        for part in value:
            check(place, part)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("schema"), dict):
        found = [it["value"] for it in value.get("examples", {}).values()]
        found += [value["example"]] if "example" in value else []
        # References lead to the components of the document.
        schema = {**value["schema"], "components": document["components"]}
        validator = OAS31Validator(schema, format_checker=oas31_format_checker)
        for example in found:
            examples += 1
            for error in validator.iter_errors(example):
                sys.exit(f"{place}: {error.message} in {json.dumps(example)}")
    for key, part in value.items():
        if key not in ("example", "examples"):
            check(f"{place}/{key}", part)


check("", document)
assert examples > 200, examples
print(f"{examples} examples fit their schemas")
