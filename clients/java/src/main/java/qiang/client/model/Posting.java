// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Posting on one of a user's accounts.
 *
 * @param kind Kind of posting.
 * @param account The user's account with the posting.
 * @param amount Amount; negative for a debit.
 * @param at Time of the posting.
 * @param campaign campaign May be null.
 * @param order order May be null.
 * @param reference Reference of the payment service; for a deposit and its reversal the deposit's id. May be null.
 */
public record Posting(
        @JsonProperty("kind") PostingKind kind,
        @JsonProperty("account") UserAccount account,
        @JsonProperty("amount") Money amount,
        @JsonProperty("at") Instant at,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("order") String order,
        @JsonProperty("reference") String reference) {}
