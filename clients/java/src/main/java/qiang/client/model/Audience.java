// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.List;

/** Audience: exactly one of these. */
public final class Audience extends Body {
    /** Body without fields. */
    public Audience() {
    }

    /** Users with an invitation of `POST /v1/campaigns/{id}/invitations`. */
    public Audience invitation(boolean invitation) {
        set("invitation", invitation);
        return this;
    }

    /**
     * Users who send this passphrase: 4 to 128 characters, at least 6 if all of them are digits. It is stored as a
     * hash. Width of characters, blanks at the ends and composed accents make no difference.
     */
    public Audience passphrase(String passphrase) {
        set("passphrase", passphrase);
        return this;
    }

    /** These users only; at most 5000. */
    public Audience users(List<String> users) {
        set("users", users);
        return this;
    }
}
