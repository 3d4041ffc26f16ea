// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** A red packet to send, under its key. */
public final class KeyedRedPacket extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public KeyedRedPacket(String idempotencyKey, NewRedPacket redPacket) {
        set("idempotency_key", idempotencyKey);
        set("red_packet", redPacket);
    }
}
