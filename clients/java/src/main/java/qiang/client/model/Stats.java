// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * Statistics of one second.
 *
 * @param number Number of the record; consecutive.
 * @param at End of the second.
 * @param claimsPerS Answered claims.
 * @param outcomesPerS Answered claims by outcome. Outcomes with no claim are absent.
 * @param settlementLagEntries Log entries that are not in the ledger yet.
 * @param queueLength Claims and commands that wait for the engine.
 * @param queueEntries Queue entries in the queues that the node decides.
 * @param gatePassRatio Fraction of claims that passed the gate and reached the engine; absent if there were none. May
 *     be null.
 * @param latencyMs Latency of claims; absent if there were none. May be null.
 */
public record Stats(
        @JsonProperty("number") long number,
        @JsonProperty("at") Instant at,
        @JsonProperty("claims_per_s") double claimsPerS,
        @JsonProperty("outcomes_per_s") Map<String, Double> outcomesPerS,
        @JsonProperty("settlement_lag_entries") long settlementLagEntries,
        @JsonProperty("queue_length") long queueLength,
        @JsonProperty("queue_entries") long queueEntries,
        @JsonProperty("gate_pass_ratio") Double gatePassRatio,
        @JsonProperty("latency_ms") ClaimLatency latencyMs) {}
