package qiang.client.model;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** Filters of a list. */
public abstract class Query {
    private final Map<String, Object> parameters = new LinkedHashMap<>();

    Query() {}

    final void set(String name, Object value) {
        parameters.put(name, value);
    }

    /** The parameters by their names. */
    public final Map<String, Object> parameters() {
        return Collections.unmodifiableMap(parameters);
    }
}
