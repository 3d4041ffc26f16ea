// Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.

package qiang.client.model;

import com.fasterxml.jackson.annotation.JsonProperty;

/**
 * Notification of Alipay. Further parameters are signed, and ignored.
 *
 * @param appId Id of the application.
 * @param tradeStatus State of the trade.
 * @param tradeNo Alipay's number of the trade.
 * @param totalAmount Amount of the order, in yuan.
 * @param passbackParams Id of the order.
 * @param sign The signature.
 */
public record AlipayNotification(
        @JsonProperty("app_id") String appId,
        @JsonProperty("trade_status") String tradeStatus,
        @JsonProperty("trade_no") String tradeNo,
        @JsonProperty("total_amount") String totalAmount,
        @JsonProperty("passback_params") String passbackParams,
        @JsonProperty("sign") String sign) {}
