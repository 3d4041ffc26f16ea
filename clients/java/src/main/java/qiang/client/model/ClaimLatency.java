// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Latency of claims, in milliseconds.
 *
 * @param p50 50th percentile.
 * @param p90 90th percentile.
 * @param p99 99th percentile.
 */
public record ClaimLatency(
        @JsonProperty("p50") double p50,
        @JsonProperty("p90") double p90,
        @JsonProperty("p99") double p99) {}
