// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Credentials of a claim for the audience. */
public final class Credentials extends Body {
    /** Body without fields. */
    public Credentials() {
    }

    /** Invitation, for campaigns by invitation. */
    public Credentials invitation(String invitation) {
        set("invitation", invitation);
        return this;
    }

    /** Passphrase, for campaigns by passphrase. */
    public Credentials passphrase(String passphrase) {
        set("passphrase", passphrase);
        return this;
    }
}
