// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Result of one check.
 *
 * @param name Name of the check.
 * @param examined Number of rows examined.
 * @param offending The first breaches, one line each.
 * @param offendingTotal Total number of breaches.
 * @param notApplicable Reason why the check does not apply. May be null.
 * @param ok Whether the check found no breach; absent if it does not apply here. May be null.
 * @param remedy Remedy for operators; absent unless there are breaches. May be null.
 */
public record AuditCheck(
        @JsonProperty("name") String name,
        @JsonProperty("examined") long examined,
        @JsonProperty("offending") List<String> offending,
        @JsonProperty("offending_total") long offendingTotal,
        @JsonProperty("not_applicable") String notApplicable,
        @JsonProperty("ok") Boolean ok,
        @JsonProperty("remedy") String remedy) {}
