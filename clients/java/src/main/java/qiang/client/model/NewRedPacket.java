// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A red packet to send. */
public final class NewRedPacket extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewRedPacket(String title, Money total, long shares, NewSplitRule split) {
        set("title", title);
        set("total", total);
        set("shares", shares);
        set("split", split);
    }

    /**
     * Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis).
     */
    public NewRedPacket ack(AckLevel ack) {
        set("ack", ack);
        return this;
    }

    /** Users who may take part; default: all users. */
    public NewRedPacket audience(Audience audience) {
        set("audience", audience);
        return this;
    }

    /** 32 random bytes of the sender, as 64 hexadecimal digits. All users will see them. */
    public NewRedPacket clientSeed(String clientSeed) {
        set("client_seed", clientSeed);
        return this;
    }

    /** Look of the envelope on the pages; default: `classic`. */
    public NewRedPacket cover(Cover cover) {
        set("cover", cover);
        return this;
    }

    /** Users who may see the draws; default: all users. */
    public NewRedPacket draws(Draws draws) {
        set("draws", draws);
        return this;
    }

    /**
     * Time at which unclaimed money returns to the sender. Default: `packets.refund_after_ms` of the configuration
     * after the start, which is 24 hours unless configured otherwise.
     */
    public NewRedPacket endsAt(Instant endsAt) {
        set("ends_at", endsAt);
        return this;
    }

    /**
     * The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it
     * finds the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
     */
    public NewRedPacket id(String id) {
        set("id", id);
        return this;
    }

    /** Up to 20 texts of the shop by name. Users do not see them. */
    public NewRedPacket metadata(Map<String, String> metadata) {
        set("metadata", metadata);
        return this;
    }

    /**
     * The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do not
     * see it.
     */
    public NewRedPacket reference(String reference) {
        set("reference", reference);
        return this;
    }

    /**
     * Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
     * Default: none.
     */
    public NewRedPacket requirements(List<Requirement> requirements) {
        set("requirements", requirements);
        return this;
    }

    /** Hash of the server seed for this `id`; needs `client_seed`. With both, neither side alone chooses the split. */
    public NewRedPacket serverSeedHash(String serverSeedHash) {
        set("server_seed_hash", serverSeedHash);
        return this;
    }

    /** Default: now. */
    public NewRedPacket startsAt(Instant startsAt) {
        set("starts_at", startsAt);
        return this;
    }

    /**
     * Whether the reference is unique: if another campaign of the sender has it as a unique one, this one is refused.
     * Default: no.
     */
    public NewRedPacket uniqueReference(boolean uniqueReference) {
        set("unique_reference", uniqueReference);
        return this;
    }

    /** Whether claims wait in a queue and are decided in order of arrival; default: no. */
    public NewRedPacket waitingRoom(boolean waitingRoom) {
        set("waiting_room", waitingRoom);
        return this;
    }
}
