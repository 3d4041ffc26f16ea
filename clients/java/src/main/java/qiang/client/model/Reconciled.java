// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * Result of reconciling a partition with the ledger.
 *
 * @param ranAt Time of its start.
 * @param complete Whether all live campaigns were compared. False if that takes longer than five seconds.
 * @param campaigns Campaigns compared completely.
 * @param rows Rows compared.
 * @param differences Number of differences, by kind. Each was found twice, with a pause between.
 * @param examples The first hundred differences, one line each.
 */
public record Reconciled(
        @JsonProperty("ran_at") Instant ranAt,
        @JsonProperty("complete") boolean complete,
        @JsonProperty("campaigns") long campaigns,
        @JsonProperty("rows") long rows,
        @JsonProperty("differences") Map<String, Long> differences,
        @JsonProperty("examples") List<String> examples) {}
