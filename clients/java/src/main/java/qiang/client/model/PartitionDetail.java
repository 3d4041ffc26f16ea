// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;
import java.util.Map;

/**
 * Partition with its nodes and repairs.
 *
 * @param partition Its number.
 * @param status Its readiness.
 * @param refused Its entries that the ledger refused.
 * @param waiting Its entries that wait for refused ones.
 * @param settled The last entry that is in the ledger.
 * @param engine Fields of the engine's state, as texts.
 * @param nodes The nodes that report to it.
 * @param repairs The last repairs in the ledger, newest first.
 * @param withheld Withheld units in the ledger.
 * @param reason Reason of a status other than ready. May be null.
 * @param reconciliation Differences between engine and ledger; absent if this process does not reconcile. May be null.
 * @param settlementLag Its log entries that are not in the ledger yet; absent if the number per partition is unknown.
 *     May be null.
 * @param settlementStuck Reason why its settlement is stuck. May be null.
 */
public record PartitionDetail(
        @JsonProperty("partition") long partition,
        @JsonProperty("status") ReadinessStatus status,
        @JsonProperty("refused") long refused,
        @JsonProperty("waiting") long waiting,
        @JsonProperty("settled") long settled,
        @JsonProperty("engine") Map<String, String> engine,
        @JsonProperty("nodes") List<NodeSighting> nodes,
        @JsonProperty("repairs") List<RepairRecord> repairs,
        @JsonProperty("withheld") List<Withheld> withheld,
        @JsonProperty("reason") String reason,
        @JsonProperty("reconciliation") PartitionReconciliation reconciliation,
        @JsonProperty("settlement_lag") Long settlementLag,
        @JsonProperty("settlement_stuck") String settlementStuck) {}
