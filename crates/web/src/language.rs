//! Languages of the pages, and their texts.

use axum::http::{HeaderMap, header};
use serde::Serialize;

/// Language of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    /// In simplified signs.
    Chinese,
    /// In traditional signs, as written in Taiwan.
    TraditionalChinese,
    Japanese,
}

impl Language {
    /// All languages, in the order of their links.
    pub(crate) const ALL: [Self; 4] = [
        Self::English,
        Self::Chinese,
        Self::TraditionalChinese,
        Self::Japanese,
    ];

    /// Language that the visitor chose, or that the browser prefers.
    pub(crate) fn of(chosen: Option<&str>, headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let kept = text(header::COOKIE).and_then(|cookies| {
            let mut pairs = cookies
                .split(';')
                .filter_map(|pair| pair.trim().split_once('='));
            pairs
                .find(|(name, _)| *name == "language")
                .map(|(_, value)| value)
        });
        let known = match chosen.or(kept) {
            Some(tag) => Self::from_tag(tag),
            None => text(header::ACCEPT_LANGUAGE).and_then(Self::preferred),
        };
        known.unwrap_or(Self::English)
    }

    /// Language of a tag (BCP 47), whose region does not matter except for the signs of Chinese.
    fn from_tag(tag: &str) -> Option<Self> {
        let tag = tag.trim().to_ascii_lowercase();
        let mut parts = tag.split('-');
        match parts.next()? {
            "en" => Some(Self::English),
            "ja" => Some(Self::Japanese),
            "zh" => {
                // A script precedes the region, which has usual signs only.
                let signs = parts.find_map(|part| match part {
                    "hans" | "cn" | "sg" | "my" => Some(Self::Chinese),
                    "hant" | "tw" | "hk" | "mo" => Some(Self::TraditionalChinese),
                    _ => None,
                });
                Some(signs.unwrap_or(Self::Chinese))
            }
            _ => None,
        }
    }

    /// Language with the largest weight in a list of `Accept-Language`; the first one of several.
    fn preferred(list: &str) -> Option<Self> {
        let mut best = (None, 0.0);
        for range in list.split(',') {
            let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
            let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
            let weight = weight.parse::<f32>().unwrap_or(0.0);
            if let Some(language) = Self::from_tag(tag).filter(|_| weight > best.1) {
                best = (Some(language), weight);
            }
        }
        best.0
    }

    /// Tag of the language (BCP 47).
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
            Self::TraditionalChinese => "zh-TW",
            Self::Japanese => "ja",
        }
    }

    /// Name of the language in itself.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "简体中文",
            Self::TraditionalChinese => "繁體中文",
            Self::Japanese => "日本語",
        }
    }

    /// Short name, for the one link at the top of a page.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Self::Chinese => "中文",
            other => other.name(),
        }
    }
}

/// Defines a table of texts, with the English and the Chinese ones. Other languages have files of their own, which fill
/// in the same struct, so that no text can be missing.
macro_rules! texts {
    ($($name:ident: $english:literal, $chinese:literal;)*) => {
        /// All texts of these pages, in one language.
        #[derive(Debug, Serialize)]
        pub(crate) struct Texts { $(pub(crate) $name: &'static str,)* }

        pub(crate) static ENGLISH: Texts = Texts { $($name: $english,)* };
        pub(crate) static CHINESE: Texts = Texts { $($name: $chinese,)* };
    };
}

pub(crate) use texts;

// Scripts and handlers replace `{…}` by values.
texts! {
    name: "Qiang", "抢";
    home_title: "Red packets and flash sales", "抢红包与秒杀";
    send_packet: "Send a red packet", "发红包";
    my_packets: "My red packets", "我的红包";
    my_orders: "My orders", "我的订单";
    home_words: "Send red packets to friends, and be first when a sale starts.", "给好友发红包，限时秒杀快人一步。";
    send_packet_words: "Split an amount among your friends", "一份心意，分给好友";
    my_packets_words: "Packets you sent and received", "发出和收到的红包";
    my_orders_words: "Your purchases and pending payments", "已购买和待付款的订单";
    desk_words: "Campaigns, live numbers, operation", "活动管理、实时数据、运维";
    a_packet: "A red packet", "红包";
    opened_by_me: "Received", "我收到的";
    signed_in_as: "Signed in as", "已登录：";
    sign_in: "Sign in", "登录";
    sign_out: "Sign out", "退出登录";
    token: "Access token", "登录凭证";
    token_help: "Paste the token from your app.", "请粘贴应用提供的登录凭证。";
    token_bad: "This token isn’t valid. Get a new one from your app.", "登录凭证无效，请重新获取。";
    be_anybody: "Demo: sign in as anyone", "体验：任选身份登录";
    user: "User", "用户";
    user_help: "Letters, digits and symbols, no spaces.", "字母、数字和符号，不含空格。";
    go: "Continue", "继续";
    from: "From", "来自";
    open: "Open", "开";
    opening: "Opening…", "正在拆开…";
    still_trying: "Slow connection. Still trying…", "网络较慢，正在重试…";
    gave_up: "Connection lost. Tap to retry; you won’t be charged twice.", "网络异常，请重试，不会重复扣款。";
    you_got: "You got {amount}", "恭喜你抢到 {amount}";
    luckiest: "luckiest", "手气最佳";
    send_too: "Send one too", "我也发一个";
    share: "Share", "分享";
    share_words: "{title}: open your red packet", "{title}，快来拆红包";
    poster: "Poster", "分享海报";
    poster_save: "Save image", "保存图片";
    poster_scan: "Scan to open", "扫码拆红包";
    done: "Done", "完成";
    fair_check: "Verify fairness", "验证公平性";
    fair_good: "✓ Verified fair", "✓ 已验证公平";
    fair_bad: "Not verified", "验证未通过";
    share_proof: "Share the proof", "分享验证结果";
    proof_words: "{title}: verified fair. Check it yourself:", "{title}：已验证公平，点此自行验证：";
    opened_in: "{count} opened in {time}", "{count} 个红包，{time}领完";
    your_rank: "You’re no. {rank} of {count}", "你排第 {rank}，共 {count} 人";
    seconds: "{n} s", "{n} 秒";
    minutes: "{n} min", "{n} 分钟";
    hours: "{n} h", "{n} 小时";
    draws_signed_out: "Sign in to see who got what.", "登录后可查看领取详情。";
    preview_packet: "{sender} sent you a red packet. Tap to open.", "{sender} 给你发了一个红包，点击拆开。";
    preview_sale: "{price}. Limited stock: tap to see when it starts.", "{price}，限量抢购，点击查看开抢时间。";
    left: "{remaining} of {supply} left", "剩余 {remaining}/{supply} 件";
    packet_left: "{remaining} of {supply} left", "已领取 {taken}/{supply} 个";
    packet_counts:
        "{remaining} of {supply} left · {money_left} of {total} left",
        "已领取 {taken}/{supply} 个，共 {money_taken}/{total}";
    begins_in: "Starts in", "距开始";
    ends_in: "Ends in", "距结束";
    over: "Ended", "已结束";
    all_taken: "All shares have been claimed", "手慢了，红包派完了";
    ended: "This red packet has ended", "该红包已结束";
    paused: "Paused", "活动暂停中";
    not_yet: "Not started yet", "尚未开始";
    begun: "The sale has started!", "抢购已开始！";
    counting: "…", "…";
    went_back: "{amount} returned to the sender", "{amount} 已退回发送人";
    draws: "Who got what", "领取详情";
    draws_hidden: "The sender keeps this list private.", "发送人未公开领取详情。";
    nobody_yet: "No one has opened it yet", "还没有人领取";
    more: "Show more", "查看更多";
    passphrase: "Passphrase", "口令";
    proof: "Verify fairness", "验证公平性";
    proof_help:
        "Before anyone opens it, the service publishes a fingerprint of the split. Once it ends, the service publishes \
        the seed behind the shares, and your browser can recompute each share.",
        "在任何人拆开之前，系统已公布分配方式的指纹；结束后公布随机种子，你的浏览器可以重新计算每一份。";
    proof_wait: "Published when the packet ends", "红包结束后公布";
    commitment: "Fingerprint", "指纹";
    seed: "Seed", "种子";
    check: "Verify", "立即验证";
    proof_good:
        "Verified: the fingerprint matches, and {count:the one share follows|all shares follow} from the seed \
        ({count} checked). The service alone chose the seed.",
        "验证通过：指纹吻合，已核对的 {count} 份均由种子得出。种子由系统单独选定。";
    proof_good_both:
        "Verified: the fingerprint matches, and {count:the one share follows|all shares follow} from the seed \
        ({count} checked). Neither the service nor the sender could choose it alone.",
        "验证通过：指纹吻合，已核对的 {count} 份均由种子得出。种子由系统与发送人共同生成，任何一方都无法单独选定。";
    proof_bad_promise: "Not verified: the seed was not made from what the service and the sender published.",
        "验证未通过：种子与系统和发送人公布的内容不符。";
    proof_limits: "This doesn’t show who opened it or when, or that the service and the sender are independent.",
        "此验证不涉及领取人与领取时间，也不能证明系统与发送人没有串通。";
    proof_bad_commitment: "Not verified: the fingerprint doesn’t match the seed.", "验证未通过：指纹与种子不符。";
    proof_unknown_rule: "This page can’t verify this kind of split. Reload it, or use `qiang split verify`.",
        "本页面无法验证这种分配方式。请刷新页面，或使用 qiang split verify。";
    proof_bad_share: "Not verified: share {number} isn’t what the seed gives.", "验证未通过：第 {number} 份与种子不符。";
    amount: "Amount", "金额";
    currency: "Currency", "币种";
    shares: "Shares", "个数";
    greeting: "Greeting", "祝福语";
    greeting_default: "Best wishes!", "恭喜发财，大吉大利！";
    cover: "Cover", "红包封面";
    cover_classic: "Classic", "经典";
    cover_blossom: "Blossoms", "梅花";
    cover_lantern: "Lanterns", "灯笼";
    cover_cloud: "Clouds", "祥云";
    cover_birthday: "Birthday", "生日";
    cover_wedding: "Wedding", "新婚";
    rule: "How to split", "分配方式";
    rule_double_average: "Random (recommended)", "拼手气红包（推荐）";
    rule_normal: "Random, close to the average", "拼手气红包（差额较小）";
    rule_lazy: "Random, decided on opening", "拼手气红包（拆开时决定）";
    rule_equal: "Equal amounts", "普通红包（金额相同）";
    spread: "Possible amounts", "每份金额";
    spread_one: "Each share is {low}.", "每份 {low}。";
    spread_help:
        "Each share is between {low} and {high}. About half are between {from} and {to}.",
        "每份 {low} 至 {high}，约一半在 {from} 至 {to} 之间。";
    bad_amount: "Enter an amount such as {example}, without commas.", "请输入金额，如 {example}，不含逗号。";
    bad_currency: "Enter a currency code such as CNY.", "请输入币种代码，如 CNY。";
    bad_shares: "Enter a whole number, at least 1.", "请输入整数，至少为 1。";
    bad_greeting: "Enter a greeting.", "请输入祝福语。";
    too_little_each: "Enter at least {least}, so that no share is empty.", "金额至少为 {least}，每份才不为空。";
    balance: "Balance: {amount}", "余额：{amount}";
    send: "Send", "塞钱进红包";
    sending: "Sending…", "正在发送…";
    sent: "Sent! Share this link:", "红包已发出，分享链接：";
    copy: "Copy link", "复制链接";
    copied: "Copied", "已复制";
    see_it: "See it", "查看";
    sent_by_me: "Sent", "我发出的";
    send_another: "Send another", "再发一个";
    balance_title: "Balance", "余额";
    available: "Available", "可用余额";
    refund_due: "Refund due", "应退款";
    statement: "Statement", "收支明细";
    moved_deposit: "Top-up", "充值";
    moved_fund: "Red packet sent", "发红包";
    moved_grant: "Red packet opened", "抢到红包";
    moved_refund: "Red packet refund", "红包退回";
    moved_residue: "Red packet remainder", "红包余款";
    moved_payment: "Sale of an order", "订单收款";
    moved_refund_due: "Refund due", "应退款";
    moved_return: "Order returned", "订单退货";
    moved_refund_paid: "Refund paid", "已退款";
    moved_withdrawal: "Withdrawal", "提现";
    moved_reversal: "Top-up reversed", "撤销充值";
    moved_transfer: "Moved by the service", "服务方转账";
    moved_refund_reversal: "Refund reversed: due again", "退款已撤销，重新应退";
    moved_other: "Other", "其他";
    related_sales: "Still available", "更多可抢商品";
    sales_now: "On sale and coming up", "正在热卖与即将开抢";
    find: "Search sales", "搜索商品";
    no_sales: "No sales at the moment.", "暂无活动。";
    sales_found: "{count} {count:sale|sales} found", "找到 {count} 个商品";
    see_all: "See all", "查看全部";
    put_in: "Add {amount}", "充值 {amount}";
    put_in_help: "Demo money, free of charge.", "体验金，不收费。";
    put_in_done: "{amount} added to your balance.", "{amount} 已充值到余额。";
    buy: "Buy now", "立即抢购";
    buying: "Placing your order…", "正在提交订单…";
    quantity: "Quantity", "数量";
    price: "Price", "价格";
    list_price: "List price", "原价";
    saving: "Save {amount}", "立省 {amount}";
    pictures: "Pictures", "商品图片";
    in_line: "In line: {ahead} ahead of you", "排队中，前面还有 {ahead} 人";
    in_line_kept: "In line: {ahead} ahead of you. Your place is saved.", "排队中，前面还有 {ahead} 人，已为你保留位置。";
    yours: "Yours: {quantity}", "已抢到 {quantity} 件";
    units_of: "Quantity: {quantity}", "数量：{quantity} 件";
    granted: "You got it! Pay by {time} to keep it.", "抢购成功！请在 {time} 前付款。";
    pay_within: "Pay within", "剩余付款时间";
    pay_by: "Pay by", "最晚付款时间：";
    pay_now: "Pay", "去付款";
    held: "Awaiting payment", "待付款";
    paid_late: "Your payment was late. It will be refunded.", "付款已超时，款项将退还给你。";
    see_sale: "See the sale", "查看活动";
    pay: "Pay {amount}", "付款 {amount}";
    pay_in_app: "Pay in the app", "请在应用内付款";
    paying: "Confirming payment…", "正在确认付款…";
    is_paid: "Paid", "已付款";
    payment_failed: "The payment didn’t go through, and you haven’t been charged. Your order is still held.",
        "付款未成功，未扣款，订单仍为你保留。";
    not_charged: "You haven’t been charged.", "未扣款。";
    demo_money: "Demo: no real money moves.", "演示环境，不会真实扣款。";
    notify_me: "Notify me", "开抢提醒";
    remind: "Add to calendar", "添加到日历";
    reminder_saved: "Reminder saved. Open the file to add it to your calendar.", "提醒文件已保存，打开即可添加到日历。";
    reminder_title: "{title}: sale starts", "{title}：开抢";
    starts_at: "Starts {time}", "{time} 开抢";
    ends_at: "Ends {time}", "{time} 结束";
    ended_at: "Ended {time}", "已于 {time} 结束";
    buy_another: "Buy another", "再买一件";
    order_made: "Order no. {number} · {time}", "订单 {number} · {time}";
    sold_tally: "✓ {sold} sold, {oversold} oversold", "✓ 售出 {sold} 件，超卖 {oversold} 件";
    cancel_title: "Cancel this order?", "确定取消订单？";
    cancel_help: "Your units go back on sale at once, and you may not get them again.",
        "取消后将立即重新开售，可能无法再次抢到。";
    cancel_units: "Quantity to cancel", "取消件数";
    cancel_no: "Keep order", "再想想";
    did_cancel_units: "{units} cancelled. {left} left in this order.", "已取消 {units} 件，订单还剩 {left} 件。";
    did_cancel: "Cancelled. There’s nothing to pay.", "订单已取消，无需付款。";
    pay_elsewhere: "Pay in the shop’s app.", "请在商家应用内付款。";
    paid: "Paid. Thank you!", "已付款，感谢购买！";
    free: "Free", "免费";
    cancel: "Cancel order", "取消订单";
    cancelled: "Cancelled", "已取消";
    expired: "Expired: not paid in time. Late payments are refunded.", "订单已超时关闭，逾期付款将退还";
    returned: "Returned", "已退货";
    returned_part: "{returned} of {quantity} returned", "已退 {returned} 件，共 {quantity} 件";
    sold_out: "Sold out", "已售罄";
    come_back: "More may become available if orders aren’t paid. Keep this page open.",
        "若有订单未付款，将重新开放购买，请留在本页。";
    came_back: "{remaining} more available!", "补货 {remaining} 件！";
    limit: "Limit {limit} per person", "每人限购 {limit} 件";
    accepts_over: "Overpayments aren’t refunded.", "多付的金额不退。";
    accepts_within: "Payments up to {tolerance} above or below the price are accepted. The difference isn’t refunded.",
        "付款金额相差不超过 {tolerance} 即视为已付款，差额不退。";
    limit_reached: "You’ve reached the limit", "已达限购数量";
    again_later: "High demand. Try again.", "当前人数过多，请重试。";
    too_often: "Too many attempts. Wait a moment, then try again.", "操作太频繁，请稍后再试。";
    sent_too_many: "Too many red packets. Try again in a minute.", "红包发得太频繁，请一分钟后再试。";
    too_little: "Insufficient balance.", "余额不足，请先充值。";
    not_begun: "This hasn’t started yet.", "活动尚未开始。";
    not_now: "Temporarily unavailable. Try again in a moment.", "暂时无法领取，请稍后再试。";
    passphrase_wrong: "Wrong passphrase. Try again.", "口令错误，请重试。";
    impossible_wish: "Check what you entered.", "请检查填写的内容。";
    changed: "This has changed. Check again.", "状态已变化，请重新查看。";
    signed_out: "You’re signed out. Sign in again.", "登录已失效，请重新登录。";
    may_not: "You don’t have permission.", "你没有此权限。";
    shop_refuses: "The shop declined this order.", "商家未接受此订单。";
    check_failed: "Verification expired. Try again.", "验证已过期，请重试。";
    did_not_work: "Something went wrong. Try again in a moment.", "操作失败，请稍后再试。";
    not_for_you: "This is for invited users only.", "仅限受邀用户参与。";
    no_such: "Page not found", "页面不存在";
    no_such_help: "Check the link, or start from the home page.", "请检查链接，或返回首页。";
    trouble: "Something went wrong. Try again in a moment.", "系统繁忙，请稍后再试。";
    unknown_problem: "Something went wrong: {title}", "操作失败：{title}";
    day: "d", "天";
    none_yet: "Nothing here yet.", "暂无记录。";
    back_home: "Home", "首页";
    languages: "Languages", "语言";
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_visitor_chooses_before_the_browser() {
        let check = |chosen, cookie: &'static str, accepted: &'static str, expected: Language| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_static(cookie));
            headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static(accepted));
            assert_eq!(
                Language::of(chosen, &headers),
                expected,
                "{chosen:?} {cookie} {accepted}"
            );
        };
        check(None, "", "", Language::English);
        check(None, "", "zh-CN,zh;q=0.9,en;q=0.8", Language::Chinese);
        check(None, "", "zh", Language::Chinese);
        check(None, "", "zh-Hans-HK", Language::Chinese);
        for accepted in [
            "fr, zh-TW;q=0.5",
            "zh-Hant",
            "zh-Hant-CN",
            "zh-hk,en;q=0.8",
            "zh-MO",
            "en;q=0.5, zh-TW;q=0.7",
        ] {
            check(None, "", accepted, Language::TraditionalChinese);
        }
        check(None, "", "ja-JP,ja;q=0.9,en;q=0.8", Language::Japanese);
        check(None, "", "ja;q=0, en", Language::English);
        check(None, "", "jam, enm;q=0.9, fr", Language::English);
        check(None, "a=1; language=en", "zh", Language::English);
        check(None, "language=zh-TW", "ja", Language::TraditionalChinese);
        check(Some("zh"), "language=en", "en", Language::Chinese);
        check(Some("ja"), "language=zh", "en", Language::Japanese);
        check(Some("xx"), "", "zh", Language::English);
        for language in Language::ALL {
            check(Some(language.tag()), "", "", language);
        }
    }
}
