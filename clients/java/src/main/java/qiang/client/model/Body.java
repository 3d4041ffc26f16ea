package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonValue;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** Body of a request. Fields that were never set are absent. In changes, {@code null} removes a value. */
public abstract class Body {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    Body() {}

    final void set(String name, Object value) {
        fields.put(name, value);
    }

    /** The fields by their names in JSON. */
    @JsonValue
    public final Map<String, Object> fields() {
        return Collections.unmodifiableMap(fields);
    }
}
