package qiang.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.InvalidKeyException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.function.Function;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import qiang.client.model.WebhookEvent;
import qiang.client.model.WebhookEventData;

/** Verification of webhooks, as Standard Webhooks specifies. */
public final class Webhooks {
    /** Signatures that are compared. The service sends one per valid secret. */
    private static final int SIGNATURES_MAX = 16;
    private static final Pattern SECONDS = Pattern.compile("[0-9]{1,18}");

    private final List<SecretKeySpec> keys = new ArrayList<>();
    private final Duration tolerance;

    /**
     * Webhook whose signature is right.
     *
     * @param id Its id. A retry has the same one: store it, and ignore an id that you have stored.
     * @param type Its type. Test events have {@code webhook.test}. Later services may send further types.
     * @param timestamp Time of the decision.
     * @param data Its details.
     */
    public record Event(String id, String type, Instant timestamp, WebhookEventData data) {}

    /** Verifier for a secret, or for several during a rotation. Signatures may be 5 minutes old. */
    public Webhooks(String... secrets) {
        this(Duration.ofMinutes(5), secrets);
    }

    /** Verifier with another tolerance between the time of a signature and this machine's clock. */
    public Webhooks(Duration tolerance, String... secrets) {
        this.tolerance = tolerance;
        for (String secret : secrets) {
            keys.add(new SecretKeySpec(key(secret), "HmacSHA256"));
        }
        if (keys.isEmpty()) {
            throw new UsageException("there is no secret");
        }
    }

    /**
     * Verifies a webhook over its raw body, and reads it.
     *
     * @param header Value of a header by its name in lower case, or null.
     * @throws SignatureException unless a signature matches a secret and its time is within the tolerance.
     */
    public Event verify(Function<String, String> header, byte[] body) {
        return verify(header, body, Instant.now());
    }

    Event verify(Function<String, String> header, byte[] body, Instant now) {
        String id = needed(header, "webhook-id");
        String sentAt = needed(header, "webhook-timestamp");
        String[] signatures = needed(header, "webhook-signature").trim().split(" +");
        if (!SECONDS.matcher(sentAt).matches()) {
            throw new SignatureException("webhook-timestamp is no number of seconds");
        }
        if (Math.abs(now.getEpochSecond() - Long.parseLong(sentAt)) > tolerance.toSeconds()) {
            throw new SignatureException("the signature is too old, or ahead of this machine's clock");
        }
        boolean isRight = false;
        for (SecretKeySpec key : keys) {
            byte[] right = signature(key, (id + "." + sentAt + ".").getBytes(StandardCharsets.UTF_8), body);
            // All pairs are compared, so that the time does not tell which one matched.
            for (String given : Arrays.asList(signatures).subList(0, Math.min(SIGNATURES_MAX, signatures.length))) {
                isRight |= MessageDigest.isEqual(right, given.getBytes(StandardCharsets.UTF_8));
            }
        }
        if (!isRight) {
            throw new SignatureException("no signature matches");
        }
        try {
            WebhookEvent event = Json.read(body, WebhookEvent.class);
            if (event.type() == null || event.timestamp() == null || event.data() == null) {
                throw new SignatureException("the body is no event");
            }
            return new Event(id, event.type(), event.timestamp(), event.data());
        } catch (IOException error) {
            throw new SignatureException("the body is no event: " + error.getMessage());
        }
    }

    private static String needed(Function<String, String> header, String name) {
        String value = header.apply(name);
        if (value == null) {
            throw new SignatureException("the header " + name + " is missing");
        }
        return value;
    }

    private static byte[] signature(SecretKeySpec key, byte[] head, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(key);
            mac.update(head);
            return ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        } catch (NoSuchAlgorithmException | InvalidKeyException error) {
            throw new IllegalStateException("each Java platform has HMAC-SHA256", error);
        }
    }

    private static byte[] key(String secret) {
        String base64 = secret.startsWith("whsec_") ? secret.substring("whsec_".length()) : secret;
        try {
            byte[] key = Base64.getDecoder().decode(base64);
            if (key.length > 0) {
                return key;
            }
        } catch (IllegalArgumentException error) {
            // The message below says what a secret is.
        }
        throw new UsageException("the secret of a webhook is `whsec_` and base64");
    }
}
