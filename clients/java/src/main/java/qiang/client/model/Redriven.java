// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of settling an entry again.
 *
 * @param entry The entry.
 * @param settled Whether it is settled now.
 */
public record Redriven(
        @JsonProperty("entry") String entry,
        @JsonProperty("settled") boolean settled) {}
