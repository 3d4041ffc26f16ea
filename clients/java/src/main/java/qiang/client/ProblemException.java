package qiang.client;

import java.time.Duration;
import java.util.List;
import qiang.client.model.FieldError;
import qiang.client.model.Problem;
import qiang.client.model.ProblemType;

/** The service refused the request. A retry now would not help. */
public final class ProblemException extends QiangException {
    private static final long serialVersionUID = 1L;
    private final transient Problem problem;
    private final String kind;
    private final transient Duration retryAfter;

    ProblemException(Problem problem, String type, Duration retryAfter) {
        super(text(problem), null);
        this.problem = problem;
        this.kind = type.substring(type.lastIndexOf('/') + 1);
        this.retryAfter = retryAfter;
    }

    @Override
    public Problem problem() {
        return problem;
    }

    /** The last word of the problem's type, also of a type that this client does not know. */
    @Override
    public String kind() {
        return kind;
    }

    /** Type of the problem; {@link ProblemType#UNKNOWN} if this client does not know it. */
    public ProblemType type() {
        return problem.type();
    }

    /** Time after which the service expects a retry. Null if it did not say so. */
    public Duration retryAfter() {
        return retryAfter;
    }

    private static String text(Problem problem) {
        StringBuilder text = new StringBuilder().append(problem.status()).append(' ').append(problem.title());
        if (problem.detail() != null) {
            text.append("; ").append(problem.detail());
        }
        List<FieldError> errors = problem.errors() == null ? List.of() : problem.errors();
        for (FieldError error : errors) {
            String place = error.pointer() == null ? error.parameter() : error.pointer();
            text.append("; ").append(place).append(": ").append(error.detail());
        }
        return text.toString();
    }
}
