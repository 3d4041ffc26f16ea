package qiang.client;

import qiang.client.model.Problem;

/** Error of a call. */
public class QiangException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    QiangException(String message, Throwable cause) {
        super(message, cause);
    }

    /** Problem that the service reported; after retries, the last one. Null if there was none. */
    public Problem problem() {
        return null;
    }

    /** Kind of the problem: the last word of its type, such as {@code sold-out}. Kinds are stable. */
    public String kind() {
        return null;
    }
}
