// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

/** Solution of a challenge. */
public final class ChallengeSolution extends Body {
    /** Body without fields. */
    public ChallengeSolution() {
    }

    /** Nonce of the challenge, unchanged. */
    public ChallengeSolution nonce(String nonce) {
        set("nonce", nonce);
        return this;
    }

    /**
     * For `proof-of-work`: a text of at most 128 bytes. SHA-256 over nonce, `:` and this text must start with
     * `difficulty` zero bits.
     */
    public ChallengeSolution solution(String solution) {
        set("solution", solution);
        return this;
    }
}
