// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Reported payment and its outcome.
 *
 * @param reference Reference of the payment service.
 * @param object `payment`.
 * @param order The order.
 * @param outcome Outcome of the payment.
 * @param createdAt Time of the decision.
 * @param amount Its money; absent if the amount of a refused report could not be read. May be null.
 * @param problem Problem of a refused report. May be null.
 * @param user user May be null.
 */
public record PaymentRecord(
        @JsonProperty("reference") String reference,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("order") String order,
        @JsonProperty("outcome") PaymentRecordOutcome outcome,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("amount") Money amount,
        @JsonProperty("problem") String problem,
        @JsonProperty("user") String user) {}
