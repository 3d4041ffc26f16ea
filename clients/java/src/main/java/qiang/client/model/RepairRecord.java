// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Repair in the ledger.
 *
 * @param epoch Epoch under which the partition continues.
 * @param at Time of its start.
 * @param lost Number of lost entries that some node had observed.
 * @param unnamed Number of lost entries with unknown content.
 * @param reason Reason of the halt.
 * @param upto The last entry of the log after the repair; absent until the repair ends. May be null.
 */
public record RepairRecord(
        @JsonProperty("epoch") String epoch,
        @JsonProperty("at") Instant at,
        @JsonProperty("lost") long lost,
        @JsonProperty("unnamed") long unnamed,
        @JsonProperty("reason") String reason,
        @JsonProperty("upto") Long upto) {}
