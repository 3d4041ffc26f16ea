package qiang.client;

/** The caller passed an invalid URL, token or value. Nothing was sent. */
public final class UsageException extends QiangException {
    private static final long serialVersionUID = 1L;

    UsageException(String message) {
        super(message, null);
    }
}
