package qiang.client;

/** No connection, a broken connection, or no answer in time. {@link NoAnswerException} has it as its cause. */
public final class LostConnectionException extends QiangException {
    private static final long serialVersionUID = 1L;
    private final boolean sent;

    LostConnectionException(String message, boolean sent, Throwable cause) {
        super(message, cause);
        this.sent = sent;
    }

    /** Whether the service may have received the request. */
    public boolean sent() {
        return sent;
    }
}
