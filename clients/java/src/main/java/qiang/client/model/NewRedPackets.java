// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.List;

/** Red packets to send: 1 to 100, with at most as many shares together as one packet may have (`limits.shares_max`). */
public final class NewRedPackets extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public NewRedPackets(List<KeyedRedPacket> redPackets) {
        set("red_packets", redPackets);
    }

    /**
     * `each`: a refused packet does not affect the others. `all`: if one packet is refused, none is sent, and the whole
     * request is refused. Default: `each`.
     */
    public NewRedPackets mode(BatchMode mode) {
        set("mode", mode);
        return this;
    }
}
