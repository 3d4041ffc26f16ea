// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * A partition that is not ready.
 *
 * @param partition Number of the partition.
 * @param status degraded: something that some grants need is missing, or memory for new ones, while all else works;
 *     not_ready: nothing is served.
 * @param reason Reason of the status.
 */
public record PartitionReadiness(
        @JsonProperty("partition") long partition,
        @JsonProperty("status") ReadinessStatus status,
        @JsonProperty("reason") String reason) {}
