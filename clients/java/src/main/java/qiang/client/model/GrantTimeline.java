// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Grants of a campaign over its whole life, each with its number and its times.
 *
 * @param campaign The campaign.
 * @param lastNumber Highest number that a grant may have: of an order so far, or the number of shares.
 * @param sampled Whether only evenly spaced grants are listed, because there are more.
 * @param points The grants, ordered by number.
 * @param settled Whether all grants from before the request are included. If not, read it again later.
 */
public record GrantTimeline(
        @JsonProperty("campaign") String campaign,
        @JsonProperty("last_number") long lastNumber,
        @JsonProperty("sampled") boolean sampled,
        @JsonProperty("points") List<GrantPoint> points,
        @JsonProperty("settled") boolean settled) {}
