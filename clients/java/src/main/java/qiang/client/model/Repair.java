// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Result of a repair.
 *
 * @param result Whether entries were lost, and whether the partition is repaired.
 * @param campaigns Campaigns examined.
 * @param restored Rows that the engine had lost and that were restored.
 * @param appended Entries appended because neither the log nor the ledger had them.
 * @param unnamed Lost entries with unknown content.
 * @param withheld Withheld units.
 * @param outOfService Campaigns taken out of service because the ledger cannot read them.
 * @param conflicts Conflicts with the ledger that the repair cannot resolve, one line each.
 */
public record Repair(
        @JsonProperty("result") RepairResult result,
        @JsonProperty("campaigns") long campaigns,
        @JsonProperty("restored") long restored,
        @JsonProperty("appended") long appended,
        @JsonProperty("unnamed") long unnamed,
        @JsonProperty("withheld") long withheld,
        @JsonProperty("out_of_service") long outOfService,
        @JsonProperty("conflicts") List<String> conflicts) {}
