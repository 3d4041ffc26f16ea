// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Result of one red packet of a batch.
 *
 * @param idempotencyKey Idempotency key of the red packet.
 * @param result Result of the creation.
 * @param problem Reason of a refusal. May be null.
 * @param redPacket The red packet, unless it was refused. May be null.
 */
public record RedPacketResult(
        @JsonProperty("idempotency_key") String idempotencyKey,
        @JsonProperty("result") CreationResult result,
        @JsonProperty("problem") Problem problem,
        @JsonProperty("red_packet") RedPacket redPacket) {}
