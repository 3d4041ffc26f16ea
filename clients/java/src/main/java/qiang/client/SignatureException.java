package qiang.client;

/** A webhook is not signed with the secret, or not at this time. Answer it with status 400. */
public final class SignatureException extends QiangException {
    private static final long serialVersionUID = 1L;

    SignatureException(String message) {
        super(message, null);
    }
}
