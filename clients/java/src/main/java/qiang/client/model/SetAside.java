// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Quarantined entries of all partitions.
 *
 * @param refused Entries that the ledger refused.
 * @param waiting Entries that wait for refused ones.
 */
public record SetAside(
        @JsonProperty("refused") long refused,
        @JsonProperty("waiting") long waiting) {}
