// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of ending a halt.
 *
 * @param resumed False if the partition was not halted.
 */
public record Resumed(
        @JsonProperty("resumed") boolean resumed) {}
