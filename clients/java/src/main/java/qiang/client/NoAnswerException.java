package qiang.client;

import qiang.client.model.Problem;

/** No answer decided the request before the deadline. The cause is the error of the last attempt. */
public final class NoAnswerException extends QiangException {
    private static final long serialVersionUID = 1L;
    private final int attempts;
    private final boolean mayHaveHappened;
    private final String key;

    NoAnswerException(int attempts, boolean mayHaveHappened, String key, QiangException last) {
        super(text(attempts, last), last);
        this.attempts = attempts;
        this.mayHaveHappened = mayHaveHappened;
        this.key = key;
    }

    private static String text(int attempts, QiangException last) {
        String text = "no decisive answer after " + attempts + " attempts";
        return last == null ? text : text + ": " + last.getMessage();
    }

    /** Number of attempts; 0 if too many other calls were in flight. */
    public int attempts() {
        return attempts;
    }

    /** Whether the service may still have carried the request out. */
    public boolean mayHaveHappened() {
        return mayHaveHappened;
    }

    /** Idempotency key. Repeat the request with {@link QiangClient#withKey} to find out. */
    public String key() {
        return key;
    }

    @Override
    public Problem problem() {
        return getCause() instanceof QiangException last ? last.problem() : null;
    }

    @Override
    public String kind() {
        return getCause() instanceof QiangException last ? last.kind() : null;
    }
}
