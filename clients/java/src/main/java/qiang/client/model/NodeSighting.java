// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Node as a partition sees it.
 *
 * @param node Its name.
 * @param seenAt Time of its last presence call, by the engine's clock.
 * @param term The term in which it has reported.
 * @param observed The last entry that it has observed.
 */
public record NodeSighting(
        @JsonProperty("node") String node,
        @JsonProperty("seen_at") Instant seenAt,
        @JsonProperty("term") long term,
        @JsonProperty("observed") long observed) {}
