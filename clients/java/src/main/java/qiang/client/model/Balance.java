// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Balance of a user in one currency.
 *
 * @param available Money that the user can spend.
 * @param refundsDue Total of refunds due.
 */
public record Balance(
        @JsonProperty("available") Money available,
        @JsonProperty("refunds_due") Money refundsDue) {}
