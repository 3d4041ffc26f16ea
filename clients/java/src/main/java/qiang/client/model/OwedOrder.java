// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Order with an unpaid refund in one currency.
 *
 * @param order The order.
 * @param user The buyer.
 * @param due Total that ever became due.
 * @param refunded Amount refunded so far.
 * @param outstanding Amount still due.
 */
public record OwedOrder(
        @JsonProperty("order") String order,
        @JsonProperty("user") String user,
        @JsonProperty("due") Money due,
        @JsonProperty("refunded") Money refunded,
        @JsonProperty("outstanding") Money outstanding) {}
