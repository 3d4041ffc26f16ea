package qiang.client;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.deser.std.StdScalarDeserializer;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdScalarSerializer;
import java.io.IOException;
import java.time.DateTimeException;
import java.time.Instant;

/** JSON of requests and answers. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper()
            .registerModule(times())
            // Later services may answer further fields.
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES);

    private Json() {}

    static byte[] write(Object value) {
        try {
            return MAPPER.writeValueAsBytes(value);
        } catch (JsonProcessingException error) {
            throw new UsageException(error.getMessage());
        }
    }

    static <T> T read(byte[] body, Class<T> type) throws IOException {
        return MAPPER.readValue(body, type);
    }

    static <T> Page<T> readPage(byte[] body, Class<T> item) throws IOException {
        JavaType type = MAPPER.getTypeFactory().constructParametricType(Page.class, item);
        Page<T> page = MAPPER.readValue(body, type);
        if (page.data() == null) {
            throw new IOException("the list has no data");
        }
        return page;
    }

    /** Text of a field, or an empty one. */
    static String text(byte[] body, String field) throws IOException {
        return MAPPER.readTree(body).path(field).asText();
    }

    static <T> T convert(Object value, Class<T> type) {
        return MAPPER.convertValue(value, type);
    }

    /** Times are RFC 3339. */
    private static SimpleModule times() {
        SimpleModule module = new SimpleModule();
        module.addSerializer(Instant.class, new StdScalarSerializer<Instant>(Instant.class) {
            private static final long serialVersionUID = 1L;

            @Override
            public void serialize(Instant value, JsonGenerator out, SerializerProvider provider) throws IOException {
                out.writeString(value.toString());
            }
        });
        module.addDeserializer(Instant.class, new StdScalarDeserializer<Instant>(Instant.class) {
            private static final long serialVersionUID = 1L;

            @Override
            public Instant deserialize(JsonParser in, DeserializationContext context) throws IOException {
                try {
                    return Instant.parse(in.getText());
                } catch (DateTimeException error) {
                    throw context.weirdStringException(in.getText(), Instant.class, error.getMessage());
                }
            }
        });
        return module;
    }
}
