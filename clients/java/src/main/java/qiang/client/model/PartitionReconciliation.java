// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * Result of comparing engine and ledger.
 *
 * @param differences Number of differences, by kind.
 * @param passedAt passed_at May be null.
 * @param ranAt ran_at May be null.
 */
public record PartitionReconciliation(
        @JsonProperty("differences") Map<String, Long> differences,
        @JsonProperty("passed_at") Instant passedAt,
        @JsonProperty("ran_at") Instant ranAt) {}
