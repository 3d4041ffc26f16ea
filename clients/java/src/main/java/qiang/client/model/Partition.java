// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * A partition.
 *
 * @param partition Its number.
 * @param status Its readiness.
 * @param refused Its entries that the ledger refused.
 * @param waiting Its entries that wait for refused ones.
 * @param reason Reason of a status other than ready. May be null.
 * @param reconciliation Differences between engine and ledger; absent if this process does not reconcile. May be null.
 * @param settlementLag Its log entries that are not in the ledger yet; absent if the number per partition is unknown.
 *     May be null.
 * @param settlementStuck Reason why its settlement is stuck. May be null.
 */
public record Partition(
        @JsonProperty("partition") long partition,
        @JsonProperty("status") ReadinessStatus status,
        @JsonProperty("refused") long refused,
        @JsonProperty("waiting") long waiting,
        @JsonProperty("reason") String reason,
        @JsonProperty("reconciliation") PartitionReconciliation reconciliation,
        @JsonProperty("settlement_lag") Long settlementLag,
        @JsonProperty("settlement_stuck") String settlementStuck) {}
