// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Readiness to grant.
 *
 * @param status ready; degraded: something is missing or a partition grants nothing; not_ready: no partition grants.
 * @param queueLength Claims and commands that wait for the engine.
 * @param settlementLag Log entries that are not yet in the ledger.
 * @param campaignsOutOfService Campaigns that repairs took out of service, if any: the first 20. Their claims are
 *     refused, and all others are served. May be null.
 * @param clockOffsetSeconds Seconds by which the clock that opens and ends campaigns is ahead of this machine's. Absent
 *     if they differ by one second or less. May be null.
 * @param partitions Partitions that are not ready. May be null.
 * @param quarantinedEntries Quarantined entries, if any. The ledger lacks them until they are settled. May be null.
 * @param reason Reason for a status other than ready. May be null.
 * @param settlementStuck Reason why settlement is stuck. Absent if it is not. Grants continue during that time, up to a
 *     limit. May be null.
 * @param upkeepStuck Overdue work that is retried, if any: campaigns that are not open, queues that are not decided,
 *     packets that are claimed but not closed. May be null.
 */
public record Readiness(
        @JsonProperty("status") ReadinessStatus status,
        @JsonProperty("queue_length") long queueLength,
        @JsonProperty("settlement_lag") long settlementLag,
        @JsonProperty("campaigns_out_of_service") List<String> campaignsOutOfService,
        @JsonProperty("clock_offset_seconds") Double clockOffsetSeconds,
        @JsonProperty("partitions") List<PartitionReadiness> partitions,
        @JsonProperty("quarantined_entries") SetAside quarantinedEntries,
        @JsonProperty("reason") String reason,
        @JsonProperty("settlement_stuck") String settlementStuck,
        @JsonProperty("upkeep_stuck") String upkeepStuck) {}
