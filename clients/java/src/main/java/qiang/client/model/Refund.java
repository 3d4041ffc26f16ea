// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Refund that was paid to the buyer of an order.
 *
 * @param reference Reference of the payment service.
 * @param object `refund`.
 * @param order The order.
 * @param user The buyer.
 * @param amount Its money.
 * @param createdAt Time of its posting.
 * @param reversed Whether the refund was reversed. Its money is due again, or was refunded under another reference. May
 *     be null.
 */
public record Refund(
        @JsonProperty("reference") String reference,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("order") String order,
        @JsonProperty("user") String user,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("reversed") Boolean reversed) {}
