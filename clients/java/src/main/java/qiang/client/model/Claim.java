// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;

/**
 * Share of a red packet that a user has. A repeated claim gets the same one.
 *
 * @param id Its id: that of its red packet, and its number.
 * @param object `claim`.
 * @param campaign The red packet.
 * @param number Its number in the red packet, from 1.
 * @param user The user who has it.
 * @param amount Its money.
 * @param createdAt Time of the decision.
 * @param ack Acknowledgement level that it has reached. Only in the answer to a claim. May be null.
 */
public record Claim(
        @JsonProperty("id") String id,
        @JsonProperty("object") ObjectKind object,
        @JsonProperty("campaign") String campaign,
        @JsonProperty("number") long number,
        @JsonProperty("user") String user,
        @JsonProperty("amount") Money amount,
        @JsonProperty("created_at") Instant createdAt,
        @JsonProperty("ack") AckLevel ack) {}
