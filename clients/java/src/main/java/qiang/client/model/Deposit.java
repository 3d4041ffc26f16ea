// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Map;

/**
 * A deposit that was made, and how much of it was reversed.
 *
 * @param id Its id.
 * @param object `deposit`.
 * @param user The user whose account was credited.
 * @param amount Its money.
 * @param createdAt Time of the deposit.
 * @param reversed Whether all of it was reversed.
 * @param reversedAmount Reversed amount.
 * @param metadata Metadata of the shop. Absent unless the caller may read it. May be null.
 * @param reference Reference of the payment service; absent if it was made without one. May be null.
 */
public record Deposit(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("user") String user,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("reversed") boolean reversed,
        @JsonProperty("reversed_amount") Money reversedAmount,
        @JsonProperty("metadata") Map<String, String> metadata,
        @JsonProperty("reference") String reference) {}
