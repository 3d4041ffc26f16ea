package qiang.client;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import qiang.client.model.Problem;

/** Connections to one service, and the repetition of calls until an answer decides them. */
final class Wire {
    private static final String USER_AGENT = "qiang-java/0.1.0";
    /** An attempt with less time would look like one without an answer. */
    private static final long ATTEMPT_MIN_NANOS = 50_000_000;
    private static final Duration CONNECT_MAX = Duration.ofSeconds(5);
    private static final String BLANK = "about:blank";
    private static final Set<Integer> REPEATED = Set.of(408, 429, 502, 503, 504);
    /** Problem with status 503 that decides the call: a retry at once would not help. */
    private static final Set<String> DECISIVE = Set.of("paused");
    /** Problems that do not tell whether the request was carried out. Answers of proxies have {@code about:blank}. */
    private static final Set<String> UNCERTAIN = Set.of("uncertain", BLANK);
    private static final Pattern SECONDS = Pattern.compile("[0-9]{1,9}");

    private final String base;
    private final Bounds bounds;
    private final Semaphore turns;
    private final HttpClient http = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(CONNECT_MAX)
            // A redirect would lose the body or show the token to another host.
            .followRedirects(HttpClient.Redirect.NEVER)
            .build();

    /** Limits that all clients of one connection share. */
    record Bounds(Duration attemptMax, int inFlightMax, Duration backoffFirst, Duration backoffMax) {}

    /** Properties of a client. */
    record Options(String token, String key, Duration deadline) {}

    Wire(String url, Bounds bounds) {
        this.base = base(url);
        this.bounds = bounds;
        this.turns = new Semaphore(bounds.inFlightMax(), true);
    }

    /** Carries a call out and returns its success. */
    HttpResponse<byte[]> send(Call call, Options options) {
        long until = call.untilNanos == null ? System.nanoTime() + options.deadline().toNanos() : call.untilNanos;
        String key = call.isKeyed ? keyOf(call, options) : null;
        HttpRequest.Builder request = request(call, options, key);
        try {
            // Held over attempts and pauses. So while the service is down, callers wait here instead of sending more
            // requests.
            if (!turns.tryAcquire(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS)) {
                throw new NoAnswerException(0, false, key, null);
            }
            try {
                return repeat(call, request, key, until);
            } finally {
                turns.release();
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            QiangException last = new LostConnectionException("the thread was interrupted", true, error);
            throw new NoAnswerException(1, call.isChange(), key, last);
        }
    }

    /** The call's key, the client's, or a new one. */
    static String keyOf(Call call, Options options) {
        if (call.key != null) {
            return call.key;
        }
        return options.key() != null ? options.key() : UUID.randomUUID().toString();
    }

    private HttpResponse<byte[]> repeat(Call call, HttpRequest.Builder request, String key, long until)
            throws InterruptedException {
        boolean mayHaveHappened = false;
        for (int attempts = 1; ; attempts++) {
            QiangException last;
            long pause = 0;
            try {
                long attemptUntil = Math.min(until, System.nanoTime() + bounds.attemptMax().toNanos());
                HttpResponse<byte[]> answer = exchange(request, attemptUntil);
                if (answer.statusCode() >= 200 && answer.statusCode() < 300) {
                    return answer;
                }
                ProblemException refusal = refusal(answer);
                if (!REPEATED.contains(answer.statusCode()) || DECISIVE.contains(refusal.kind())) {
                    throw refusal;
                }
                mayHaveHappened |= UNCERTAIN.contains(refusal.kind());
                pause = refusal.retryAfter() == null ? 0 : refusal.retryAfter().toNanos();
                last = refusal;
            } catch (LostConnectionException error) {
                mayHaveHappened |= error.sent();
                last = error;
            }
            pause += jitter(attempts);
            if (pause + ATTEMPT_MIN_NANOS >= until - System.nanoTime()) {
                throw new NoAnswerException(attempts, mayHaveHappened && call.isChange(), key, last);
            }
            TimeUnit.NANOSECONDS.sleep(pause);
        }
    }

    /** Sends a request and reads its whole answer. */
    private HttpResponse<byte[]> exchange(HttpRequest.Builder request, long until) throws InterruptedException {
        CompletableFuture<HttpResponse<byte[]>> answer =
                http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        try {
            return answer.get(Math.max(1, until - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException error) {
            throw new LostConnectionException("no answer in time", true, error);
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            boolean isConnected = !(cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException);
            String text = isConnected ? "the connection was lost: " : "cannot connect to the service: ";
            throw new LostConnectionException(text + cause, isConnected, cause);
        } finally {
            // It ends an exchange that is still under way.
            answer.cancel(true);
        }
    }

    private HttpRequest.Builder request(Call call, Options options, String key) {
        StringBuilder url = new StringBuilder(base).append(call.path);
        char mark = '?';
        for (Map.Entry<String, Object> one : call.query.entrySet()) {
            if (one.getValue() != null) {
                url.append(mark).append(one.getKey()).append('=').append(Call.encoded(text(one.getValue())));
                mark = '&';
            }
        }
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url.toString()))
                .header("Accept", "application/json")
                .header("User-Agent", USER_AGENT);
        if (options.token() != null) {
            request.header("Authorization", "Bearer " + options.token());
        }
        if (key != null) {
            request.header("Idempotency-Key", key);
        }
        call.headers.forEach(request::header);
        HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.noBody();
        if (call.body != null) {
            request.header("Content-Type", "application/json");
            body = HttpRequest.BodyPublishers.ofByteArray(Json.write(call.body));
        }
        return request.method(call.method, body);
    }

    /** Value of a parameter. Enums have their value in JSON. */
    private static String text(Object value) {
        if (value instanceof Enum<?>) {
            return Json.convert(value, String.class);
        }
        return value instanceof Instant time ? time.toString() : String.valueOf(value);
    }

    /** Problem that an answer describes. Answers of proxies have no description. */
    private static ProblemException refusal(HttpResponse<byte[]> answer) {
        Duration retryAfter = answer.headers()
                .firstValue("retry-after")
                .filter(text -> SECONDS.matcher(text).matches())
                .map(text -> Duration.ofSeconds(Long.parseLong(text)))
                .orElse(null);
        String type = answer.headers().firstValue("content-type").orElse("");
        if (type.startsWith("application/problem+json")) {
            try {
                Problem problem = Json.read(answer.body(), Problem.class);
                return new ProblemException(problem, Json.text(answer.body(), "type"), retryAfter);
            } catch (IOException error) {
                // It is described as an answer of a proxy.
            }
        }
        Map<String, Object> blank = new HashMap<>();
        blank.put("type", BLANK);
        blank.put("title", "status " + answer.statusCode() + " without a description");
        blank.put("status", answer.statusCode());
        blank.put("request_id", answer.headers().firstValue("x-request-id").orElse(null));
        return new ProblemException(Json.convert(blank, Problem.class), BLANK, retryAfter);
    }

    /** Random pause; its maximum doubles with each attempt (full jitter). */
    private long jitter(int attempts) {
        double longest = bounds.backoffFirst().toNanos() * Math.pow(2, Math.min(attempts - 1, 30));
        return (long) (ThreadLocalRandom.current().nextDouble() * Math.min(longest, bounds.backoffMax().toNanos()));
    }

    private static String base(String url) {
        try {
            URI parsed = URI.create(url);
            boolean isWeb = "http".equals(parsed.getScheme()) || "https".equals(parsed.getScheme());
            boolean isBare = parsed.getQuery() == null && parsed.getFragment() == null && parsed.getUserInfo() == null;
            if (isWeb && isBare && parsed.getHost() != null && parsed.getPort() != 0) {
                return url.replaceAll("/+$", "");
            }
        } catch (IllegalArgumentException error) {
            // The message names the URL.
        }
        throw new UsageException("invalid URL `" + url + "`: use one such as http://127.0.0.1:8080");
    }
}
