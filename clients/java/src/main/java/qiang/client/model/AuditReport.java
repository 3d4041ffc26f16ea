// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Findings of an audit.
 *
 * @param subject The audited data.
 * @param refused Entries that the ledger refused.
 * @param waiting Entries that wait for refused ones.
 * @param checks All checks, in order of execution.
 * @param inFlight Unsettled entries in the engine's log; absent if no engine was audited. May be null.
 */
public record AuditReport(
        @JsonProperty("subject") String subject,
        @JsonProperty("refused") long refused,
        @JsonProperty("waiting") long waiting,
        @JsonProperty("checks") List<AuditCheck> checks,
        @JsonProperty("in_flight") Long inFlight) {}
