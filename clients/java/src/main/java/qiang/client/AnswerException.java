package qiang.client;

/** The service answered a success that this client does not understand. The request was carried out. */
public final class AnswerException extends QiangException {
    private static final long serialVersionUID = 1L;

    AnswerException(String message, Throwable cause) {
        super(message, cause);
    }
}
