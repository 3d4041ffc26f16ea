// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import java.util.Map;

/** Notification of WeChat Pay. Further fields are ignored. */
public final class WechatPayNotification extends Body {
    /** Body with the required fields. The service applies its defaults for all others. */
    public WechatPayNotification(String eventType, Map<String, Object> resource) {
        set("event_type", eventType);
        set("resource", resource);
    }
}
