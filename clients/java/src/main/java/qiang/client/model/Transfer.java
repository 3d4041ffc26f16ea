// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Money that an operator moved from one user's account to another's.
 *
 * @param reference The operator's reference.
 * @param object `transfer`.
 * @param user The user whose account was debited.
 * @param to The user whose account was credited.
 * @param amount Its money.
 * @param createdAt Time of its posting.
 */
public record Transfer(
        @JsonProperty("reference") String reference,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("user") String user,
        @JsonProperty("to") String to,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt) {}
