// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Refunds of an order: due and paid.
 *
 * @param order The order.
 * @param due Total that ever became due in the sale's currency.
 * @param refunded Amount refunded so far.
 * @param settled Whether the amounts include all changes from before the request. If not, read them again later.
 * @param otherCurrencies The same in other currencies of payments. May be null.
 */
public record Refunds(
        @JsonProperty("order") String order,
        @JsonProperty("due") Money due,
        @JsonProperty("refunded") Money refunded,
        @JsonProperty("settled") boolean settled,
        @JsonProperty("other_currencies") List<OwedMoney> otherCurrencies) {}
