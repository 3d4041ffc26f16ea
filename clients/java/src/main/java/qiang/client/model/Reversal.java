// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * A reversal of a deposit, or of a part of it.
 *
 * @param deposit The deposit.
 * @param object `reversal`.
 * @param user The user whose account was debited.
 * @param amount Its money.
 * @param createdAt Time of the reversal.
 */
public record Reversal(
        @JsonProperty("deposit") String deposit,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("user") String user,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt) {}
