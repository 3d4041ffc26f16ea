package qiang.client;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import qiang.client.model.Body;
import qiang.client.model.Query;

/** Request that can be sent several times. */
final class Call {
    final String method;
    final String path;
    final Map<String, Object> query = new LinkedHashMap<>();
    final Map<String, String> headers = new LinkedHashMap<>();
    Object body;
    boolean isKeyed;
    /** Key in place of the client's or a new one. */
    String key;
    /** Deadline in place of the client's, by {@link System#nanoTime}. */
    Long untilNanos;

    Call(String method, String path) {
        this.method = method;
        this.path = path;
    }

    Call body(Body body) {
        this.body = body;
        return this;
    }

    Call query(Query query) {
        this.query.putAll(query.parameters());
        return this;
    }

    Call keyed() {
        isKeyed = true;
        return this;
    }

    boolean isChange() {
        return !method.equals("GET");
    }

    /** Text as part of a path or of a query. */
    static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
