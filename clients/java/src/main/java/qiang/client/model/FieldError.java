// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Wrong field of a body, or wrong parameter: of the path, of the query, or a header.
 *
 * @param detail The error.
 * @param parameter The name of the parameter. May be null.
 * @param pointer Position of the field in the body: `#` and a JSON pointer (RFC 6901). May be null.
 */
public record FieldError(
        @JsonProperty("detail") String detail,
        @JsonProperty("parameter") String parameter,
        @JsonProperty("pointer") String pointer) {}
