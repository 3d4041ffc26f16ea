// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Refunds of an order in one currency.
 *
 * @param due Total that ever became due.
 * @param refunded Amount refunded so far.
 */
public record OwedMoney(
        @JsonProperty("due") Money due,
        @JsonProperty("refunded") Money refunded) {}
