// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Reversal of a recorded refund: its money is due to the buyer again.
 *
 * @param reference Reference of the refund.
 * @param object `refund_reversal`.
 * @param order The order.
 * @param user The buyer.
 * @param amount Money of the refund.
 * @param createdAt Time of the reversal.
 */
public record RefundReversal(
        @JsonProperty("reference") String reference,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("order") String order,
        @JsonProperty("user") String user,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt) {}
