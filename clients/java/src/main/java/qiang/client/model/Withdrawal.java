// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Withdrawal from an account.
 *
 * @param reference Reference of the payment service.
 * @param object `withdrawal`.
 * @param user The user whose account was debited.
 * @param amount Its money.
 * @param createdAt Time of its posting.
 */
public record Withdrawal(
        @JsonProperty("reference") String reference,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("user") String user,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt) {}
