// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Units of a campaign that a repair has withheld.
 *
 * @param epoch The repair's epoch.
 * @param campaign The campaign.
 * @param units Number of units.
 * @param amountMinor Value in minor units, for shares.
 * @param releasedAt released_at May be null.
 */
public record Withheld(
        @JsonProperty("epoch") String epoch,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("units") long units,
        @JsonProperty("amount_minor") long amountMinor,
        @JsonProperty("released_at") Instant releasedAt) {}
