// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Grant of a timeline.
 *
 * @param number Its number, which counts the grants up to this one, unless numbers were skipped.
 * @param createdAt Time of the decision.
 * @param paidAt paid_at May be null.
 */
public record GrantPoint(
        @JsonProperty("number") long number,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("paid_at") Instant paidAt) {}
