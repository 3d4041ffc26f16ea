// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * An entry in quarantine.
 *
 * @param entry Its partition and position, such as `0-17`.
 * @param partition Its partition.
 * @param seq Its position in the partition's log.
 * @param campaign The campaign of the entry.
 * @param event Its text in the log.
 * @param at Time of the refusal; for a waiting entry the time of the decision.
 * @param reason Reason why it was not settled.
 * @param discarding Whether the entry is a grant that is being discarded.
 * @param waitsFor Position of the entry that it waits for; absent if it was refused. May be null.
 */
public record QuarantinedEntry(
        @JsonProperty("entry") String entry,
        @JsonProperty("partition") long partition,
        @JsonProperty("seq") long seq,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("event") String event,
        @JsonProperty("at") Instant at,
        @JsonProperty("reason") String reason,
        @JsonProperty("discarding") boolean discarding,
        @JsonProperty("waits_for") Long waitsFor) {}
