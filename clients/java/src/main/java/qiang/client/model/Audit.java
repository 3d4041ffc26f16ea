// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Audit of the node that was asked, with its status.
 *
 * @param id Its id.
 * @param status Its status.
 * @param actor The user who requested it.
 * @param startedAt Time of its start.
 * @param endedAt ended_at May be null.
 * @param error Error of a failed audit. May be null.
 * @param report Its report; absent in lists. May be null.
 */
public record Audit(
        @JsonProperty("id") String id,
        @JsonProperty("status") AuditStatus status,
        @JsonProperty("actor") String actor,
        @JsonProperty("started_at") Instant startedAt,
        @JsonProperty("ended_at") Instant endedAt,
        @JsonProperty("error") String error,
        @JsonProperty("report") AuditReport report) {}
