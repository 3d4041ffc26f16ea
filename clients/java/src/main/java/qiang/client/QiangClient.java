package qiang.client;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import qiang.client.model.Challenge;
import qiang.client.model.ChallengeAnswer;
import qiang.client.model.ChallengeSolution;
import qiang.client.model.Claim;
import qiang.client.model.Credentials;
import qiang.client.model.GrabTicket;
import qiang.client.model.NewOrder;
import qiang.client.model.Order;
import qiang.client.model.Place;
import qiang.client.model.PlaceState;

/**
 * Client of one service.
 *
 * <p>Every change has an idempotency key. The client repeats it under that key if the connection fails or the answer is
 * late, and on status 408, 429, 502, 503 and 504, after {@code Retry-After} and a random pause, until the deadline. So
 * no change happens twice. Threads may share a client.
 */
public final class QiangClient extends Operations {
    /** Tickets per call: the first, and another one if it expires during retries. */
    private static final int TICKETS_MAX = 2;
    /** Largest work in bits. A harder challenge is refused. */
    private static final long WORK_BITS_MAX = 32;
    /** Numbers tried between two looks at the clock. */
    private static final int TRIED_AT_ONCE = 4096;
    /** Time between two reads of a queue entry. */
    private static final long LOOK_EVERY_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final Set<String> NEEDS_TICKET = Set.of("ticket-missing", "ticket-expired");
    private static final Pattern TOKEN = Pattern.compile("[!-~]+");
    private static final Pattern KEY = Pattern.compile("[!-~]{1,255}");

    private final Wire wire;
    private final Wire.Options options;

    private QiangClient(Wire wire, Wire.Options options) {
        if (options.token() != null && !TOKEN.matcher(options.token()).matches()) {
            throw new UsageException("the token contains characters that no header allows");
        }
        if (options.key() != null && !KEY.matcher(options.key()).matches()) {
            throw new UsageException("an idempotency key has 1 to 255 visible characters of ASCII");
        }
        this.wire = wire;
        this.options = options;
    }

    /** Builder of a client for the service at a URL. A path in the URL precedes all paths of the API. */
    public static Builder builder(String url) {
        return new Builder(url);
    }

    /** Builds a {@link QiangClient}. */
    public static final class Builder {
        private final String url;
        private String token;
        private Duration deadline = Duration.ofSeconds(30);
        private Duration attemptMax = Duration.ofSeconds(10);
        private int inFlightMax = 64;
        private Duration backoffFirst = Duration.ofMillis(50);
        private Duration backoffMax = Duration.ofSeconds(2);

        private Builder(String url) {
            this.url = url;
        }

        /** Bearer token of all requests. Default: none. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** Time limit of a call with all its attempts and pauses; default 30 s. */
        public Builder deadline(Duration deadline) {
            this.deadline = deadline;
            return this;
        }

        /** Time limit of an attempt; default 10 s. After it the request is repeated under the same key. */
        public Builder attemptMax(Duration attemptMax) {
            this.attemptMax = attemptMax;
            return this;
        }

        /** Calls in flight, with their pauses; default 64. Further ones wait. */
        public Builder inFlightMax(int calls) {
            this.inFlightMax = calls;
            return this;
        }

        /** Maximum of the first random pause and of all; defaults 50 ms and 2 s. It doubles with each attempt. */
        public Builder backoff(Duration first, Duration max) {
            this.backoffFirst = first;
            this.backoffMax = max;
            return this;
        }

        /** Builds the client. It connects at the first call. */
        public QiangClient build() {
            if (inFlightMax < 1) {
                throw new UsageException("inFlightMax must be at least 1");
            }
            Wire.Bounds bounds = new Wire.Bounds(attemptMax, inFlightMax, backoffFirst, backoffMax);
            return new QiangClient(new Wire(url, bounds), new Wire.Options(token, null, deadline));
        }
    }

    /** Client for another user. It shares connections and limits. */
    public QiangClient withToken(String token) {
        return new QiangClient(wire, new Wire.Options(token, options.key(), options.deadline()));
    }

    /**
     * Client that uses this idempotency key instead of new ones, for one request and its retries. Store the key before
     * the first attempt if you must find out about the result after a crash of your process.
     */
    public QiangClient withKey(String key) {
        return new QiangClient(wire, new Wire.Options(options.token(), key, options.deadline()));
    }

    /** Client with another time limit of calls. */
    public QiangClient withDeadline(Duration deadline) {
        return new QiangClient(wire, new Wire.Options(options.token(), options.key(), deadline));
    }

    /** Orders one unit of a sale. */
    public ClaimResult<Order> order(String saleId) {
        return order(saleId, new NewOrder(), null);
    }

    /** Orders units of a sale. */
    public ClaimResult<Order> order(String saleId, NewOrder body) {
        return order(saleId, body, null);
    }

    /**
     * Orders units of a sale. Scope {@code claim}.
     *
     * <p>Retries of this call return the same order. Another call makes another order or is refused, unless both have
     * the same key ({@link #withKey}). If the sale needs a grab ticket and there is none, the client solves the
     * challenge and gets one.
     */
    public ClaimResult<Order> order(String saleId, NewOrder body, GrabTicket ticket) {
        Call call = new Call("POST", "/v1/sales/" + part(saleId) + "/orders").keyed().body(body);
        return claim(call, "/v1/sales/" + part(saleId), ticket, Order.class);
    }

    /** Claims a share of a red packet. A repeated claim returns the same share. */
    public ClaimResult<Claim> claim(String redPacketId) {
        return claim(redPacketId, new Credentials(), null);
    }

    /** Claims a share of a red packet, with what its audience or requirements need. Scope {@code claim}. */
    public ClaimResult<Claim> claim(String redPacketId, Credentials body, GrabTicket ticket) {
        Call call = new Call("POST", "/v1/red-packets/" + part(redPacketId) + "/claims").keyed().body(body);
        return claim(call, "/v1/red-packets/" + part(redPacketId), ticket, Claim.class);
    }

    /** Gets a ticket for orders of a sale in advance. Orders also get their tickets automatically. */
    public GrabTicket getSaleTicket(String saleId) {
        return ticket("/v1/sales/" + part(saleId), until());
    }

    /** Gets a ticket for claims of a red packet in advance. Claims also get their tickets automatically. */
    public GrabTicket getRedPacketTicket(String redPacketId) {
        return ticket("/v1/red-packets/" + part(redPacketId), until());
    }

    /**
     * Waits for the result of the caller's queue entry of a sale. It is {@link ClaimResult.Waiting} if there is no
     * result in time. The entry stays in the queue: call again to wait longer.
     */
    public ClaimResult<Order> waitForOrder(String saleId, Duration patience) throws InterruptedException {
        return await(saleId, patience, Order.class);
    }

    /** The same for a red packet. */
    public ClaimResult<Claim> waitForClaim(String redPacketId, Duration patience) throws InterruptedException {
        return await(redPacketId, patience, Claim.class);
    }

    private <T> ClaimResult<T> await(String campaignId, Duration patience, Class<T> type) throws InterruptedException {
        long until = System.nanoTime() + patience.toNanos();
        while (true) {
            Place place;
            try {
                place = getPlace(campaignId);
            } catch (ProblemException error) {
                return refused(error);
            }
            Object grant = place.order() == null ? place.claim() : place.order();
            if (grant != null) {
                return new ClaimResult.Granted<>(type.cast(grant), true);
            }
            long rest = until - System.nanoTime();
            if (place.state() != PlaceState.WAITING || rest <= 0) {
                return new ClaimResult.Waiting<>(place);
            }
            TimeUnit.NANOSECONDS.sleep(Math.min(LOOK_EVERY_NANOS, rest));
        }
    }

    private <T> ClaimResult<T> claim(Call call, String campaign, GrabTicket given, Class<T> type) {
        call.untilNanos = until();
        // All attempts have one key: that with a ticket is the same claim as that without.
        call.key = Wire.keyOf(call, options);
        GrabTicket ticket = given;
        for (int tried = 0; ; tried++) {
            if (ticket != null) {
                call.headers.put("Grab-Ticket", ticket.ticket());
            }
            try {
                HttpResponse<byte[]> answer = wire.send(call, options);
                if (answer.statusCode() == 202) {
                    return new ClaimResult.Waiting<>(read(answer, Place.class));
                }
                String replayed = answer.headers().firstValue("idempotency-replayed").orElse("false");
                return new ClaimResult.Granted<>(read(answer, type), replayed.equals("true"));
            } catch (ProblemException error) {
                if (!NEEDS_TICKET.contains(error.kind()) || tried == TICKETS_MAX) {
                    return refused(error);
                }
                ticket = ticket(campaign, call.untilNanos);
            }
        }
    }

    private static <T> ClaimResult<T> refused(ProblemException error) {
        if (error.problem().outcome() == null) {
            throw error;
        }
        return new ClaimResult.Refused<>(error.problem().outcome(), error.problem());
    }

    private GrabTicket ticket(String campaign, long until) {
        Call call = new Call("POST", campaign + "/tickets");
        call.untilNanos = until;
        HttpResponse<byte[]> answer = wire.send(call, options);
        if (answer.statusCode() == 200) {
            Challenge challenge = read(answer, ChallengeAnswer.class).challenge();
            long bits = challenge.difficulty() == null ? 0 : challenge.difficulty();
            if (!challenge.kind().equals("proof-of-work") || bits > WORK_BITS_MAX) {
                String text = "this client cannot solve the challenge `" + challenge.kind() + "` of " + bits + " bits";
                throw new AnswerException(text, null);
            }
            String solution = solve(challenge.nonce(), (int) bits, until);
            call.body(new ChallengeSolution().nonce(challenge.nonce()).solution(solution));
            answer = wire.send(call, options);
        }
        return read(answer, GrabTicket.class);
    }

    /**
     * Solves a proof of work: finds a number such that SHA-256 over the nonce, {@code :} and its digits begins with
     * this number of zero bits. It takes 2^bits hashes on average.
     */
    static String solve(String nonce, int bits, long untilNanos) {
        MessageDigest sha256 = sha256();
        byte[] begun = (nonce + ":").getBytes(StandardCharsets.UTF_8);
        for (long number = 0; System.nanoTime() < untilNanos; ) {
            for (int tried = 0; tried < TRIED_AT_ONCE; tried++, number++) {
                sha256.update(begun);
                if (zeros(sha256.digest(Long.toString(number).getBytes(StandardCharsets.US_ASCII))) >= bits) {
                    return Long.toString(number);
                }
            }
        }
        throw new LostConnectionException("the proof of work for a ticket took longer than the deadline", false, null);
    }

    private static int zeros(byte[] hash) {
        for (int index = 0; index < hash.length; index++) {
            if (hash[index] != 0) {
                return index * 8 + Integer.numberOfLeadingZeros(hash[index] & 0xff) - 24;
            }
        }
        return hash.length * 8;
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("each Java platform has SHA-256", error);
        }
    }

    private long until() {
        return System.nanoTime() + options.deadline().toNanos();
    }

    @Override
    <T> T json(Call call, Class<T> answer) {
        HttpResponse<byte[]> received = wire.send(call, options);
        return answer == Void.class ? null : read(received, answer);
    }

    @Override
    <T> Page<T> page(Call call, Class<T> item) {
        HttpResponse<byte[]> received = wire.send(call, options);
        try {
            return Json.readPage(received.body(), item);
        } catch (IOException error) {
            throw new AnswerException("cannot read the list: " + error.getMessage(), error);
        }
    }

    @Override
    <T> Pager<T> pages(Call call, Class<T> item, boolean endless) {
        Object after = call.query.get("after");
        return new Pager<>(
                cursor -> {
                    call.query.put("after", cursor);
                    return page(call, item);
                },
                after == null ? null : after.toString(),
                endless);
    }

    private static <T> T read(HttpResponse<byte[]> answer, Class<T> type) {
        try {
            return Json.read(answer.body(), type);
        } catch (IOException error) {
            String text = "cannot read the answer with status " + answer.statusCode() + ": " + error.getMessage();
            throw new AnswerException(text, error);
        }
    }
}
