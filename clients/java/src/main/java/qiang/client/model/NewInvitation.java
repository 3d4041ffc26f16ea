// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.time.Instant;

/** An invitation to sign. */
public final class NewInvitation extends Body {
    /** Body without fields. */
    public NewInvitation() {
    }

    /** Time from which it is not valid; default: the end of the campaign. */
    public NewInvitation expiresAt(Instant expiresAt) {
        set("expires_at", expiresAt);
        return this;
    }
}
