// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * Order of a sale. A repeated claim gets the same one.
 *
 * @param id Its id: that of its sale, and its number.
 * @param object `order`.
 * @param campaign The sale.
 * @param number Its number in the sale, from 1.
 * @param user The buyer.
 * @param quantity Number of units that were granted.
 * @param returnedQuantity Units that were returned after the order was paid.
 * @param cancelledQuantity Units cancelled while the order was held. `quantity` and `amount` are without them.
 * @param amount The price of all granted units.
 * @param state Its state.
 * @param createdAt Time of the decision.
 * @param ack Acknowledgement level that it has reached. Only in the answer to a claim. May be null.
 * @param holdExtensionSeconds Seconds by which the seller extended the hold: `hold_until` includes them. Absent if the
 *     hold was not extended, and in lists. May be null.
 * @param holdUntil hold_until May be null.
 * @param metadata Metadata of the shop. Only in lists, for callers who may read it. May be null.
 * @param reference The shop's own number. Only in lists, for callers who may read the metadata. May be null.
 * @param refundablePayments Number of its payments with a refund due. Absent in lists and in the answer to a claim. May
 *     be null.
 * @param title Title of the sale. Only in lists of several sales' orders. May be null.
 */
public record Order(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("number") long number,
        @JsonProperty("user") String user,
        @JsonProperty("quantity") long quantity,
        @JsonProperty("returned_quantity") long returnedQuantity,
        @JsonProperty("cancelled_quantity") long cancelledQuantity,
        @JsonProperty("amount") Money amount,
        @JsonProperty("state") OrderState state,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("ack") AckLevel ack,
        @JsonProperty("hold_extension_seconds") Long holdExtensionSeconds,
        @JsonProperty("hold_until") Instant holdUntil,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("reference") String reference,
        @JsonProperty("refundable_payments") Long refundablePayments,
        @JsonProperty("title") String title) {}
