// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * All partitions, as the node that answers sees them.
 *
 * @param partitions The partitions.
 * @param queueLength Claims and commands that wait for the engine.
 * @param settlementLag Log entries that are not in the ledger yet.
 * @param repairable Whether partitions of this engine may lose entries, and can be repaired and resumed.
 * @param upkeepStuck Overdue maintenance that the node retries. May be null.
 */
public record Partitions(
        @JsonProperty("partitions") List<Partition> partitions,
        @JsonProperty("queue_length") long queueLength,
        @JsonProperty("settlement_lag") long settlementLag,
        @JsonProperty("repairable") boolean repairable,
        @JsonProperty("upkeep_stuck") String upkeepStuck) {}
