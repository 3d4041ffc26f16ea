// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of releasing withheld units.
 *
 * @param units Units that can be claimed again.
 */
public record Released(
        @JsonProperty("units") long units) {}
