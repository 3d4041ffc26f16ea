//! Languages of the pages, and their texts.

use axum::http::{HeaderMap, header};
use serde::Serialize;

/// Language of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Chinese,
}

impl Language {
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
        let accepted = text(header::ACCEPT_LANGUAGE).and_then(|list| {
            let mut tags = list.split(',').map(|tag| tag.trim().get(..2).unwrap_or(""));
            tags.find(|tag| ["en", "zh"].contains(tag))
        });
        match chosen.or(kept).or(accepted) {
            Some("zh") => Self::Chinese,
            _ => Self::English,
        }
    }

    /// Tag of the language (BCP 47).
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
        }
    }

    pub(crate) fn texts(self) -> &'static Texts {
        match self {
            Self::English => &ENGLISH,
            Self::Chinese => &CHINESE,
        }
    }
}

macro_rules! texts {
    ($($name:ident: $english:literal, $chinese:literal;)*) => {
        /// All texts of these pages.
        #[derive(Debug, Serialize)]
        pub(crate) struct Texts { $(pub(crate) $name: &'static str,)* }

        static ENGLISH: Texts = Texts { $($name: $english,)* };
        static CHINESE: Texts = Texts { $($name: $chinese,)* };
    };
}

pub(crate) use texts;

// Scripts and handlers replace `{…}` by values.
texts! {
    name: "Qiang", "抢";
    other_language: "中文", "English";
    home_title: "Red packets and flash sales", "抢红包与秒杀";
    send_packet: "Send a red packet", "发红包";
    my_packets: "My red packets", "我的红包";
    my_orders: "My orders", "我的订单";
    home_words: "Send luck to friends, and be quick when a sale begins.", "把好运发给朋友，秒杀开始时快人一步。";
    send_packet_words: "A sum, split among as many as you like", "一笔钱，想分给几个人都行";
    my_packets_words: "Sent and opened, with every draw", "发出的和拆开的，每一份都在";
    my_orders_words: "What you bought, and what is to be paid", "买到的，以及待付款的";
    desk_words: "Campaigns, charts, operation", "活动、图表、运维";
    a_packet: "A red packet", "红包";
    opened_by_me: "Opened by me", "我拆开的";
    signed_in_as: "Signed in as", "已登录：";
    sign_in: "Sign in", "登录";
    sign_out: "Sign out", "退出";
    token: "Token", "令牌";
    token_help: "Paste the token that your app has given you.", "粘贴应用给你的令牌。";
    token_bad: "This token is not valid.", "此令牌无效。";
    be_anybody: "For trying out: be anybody", "试用：以任何人的身份";
    user: "User", "用户";
    user_help: "Letters, digits and signs, without blanks.", "字母、数字和符号，不含空格。";
    go: "Go", "进入";
    from: "From", "来自";
    open: "Open", "开";
    opening: "Opening…", "正在拆开…";
    still_trying: "The network is slow. Still trying…", "网络较慢，仍在尝试…";
    gave_up: "No answer came. Press again: nothing is taken twice.", "没有收到答复。请再按一次：不会重复领取。";
    you_got: "You got {amount}", "你抢到 {amount}";
    luckiest: "luckiest", "手气最佳";
    left: "{remaining} of {supply} left", "剩余 {remaining}/{supply} 个";
    money_left: "{remaining} of {total} left", "剩余 {remaining}，共 {total}";
    begins_in: "Begins in", "距开始";
    ends_in: "Ends in", "距结束";
    over: "It is over", "已结束";
    all_taken: "All shares are taken", "手慢了，红包派完了";
    ended: "This red packet has ended", "红包已结束";
    paused: "Paused for a moment", "暂停中";
    not_yet: "Not yet", "尚未开始";
    begun: "It has begun!", "开始了！";
    counting: "…", "…";
    went_back: "{amount} went back to the sender", "{amount} 已退回发红包的人";
    draws: "Draws", "领取记录";
    draws_hidden: "The sender does not show the draws.", "发红包的人不公开领取记录。";
    nobody_yet: "Nobody yet", "还没有人领取";
    more: "More", "更多";
    passphrase: "Passphrase", "口令";
    proof: "Was it fair?", "公平吗？";
    proof_help:
        "Before anybody opened it, the service published the fingerprint of how the money is split. Now it \
        has shown what the shares were drawn from. Your browser can draw them again.",
        "在任何人拆开之前，系统已公布分配方式的指纹。现在它公开了随机种子，你的浏览器可以重新计算每一份。";
    proof_wait: "The seed is shown when it is over.", "结束后公布种子。";
    commitment: "Fingerprint", "指纹";
    seed: "Seed", "种子";
    check: "Check", "验证";
    proof_good:
        "The fingerprint fits, and all {count} draws follow from the seed. The service has chosen the seed alone.",
        "指纹吻合，全部 {count} 份都由种子得出。种子由系统单独选定。";
    proof_good_both:
        "The fingerprint fits, and all {count} draws follow from the seed, which neither the service nor the sender \
        could choose alone.",
        "指纹吻合，全部 {count} 份都由种子得出，而种子由系统与发红包的人共同生成，任何一方都无法单独选定。";
    proof_bad_promise: "The seed is not made of what service and sender gave.", "种子与系统和发红包的人所给的不符。";
    proof_limits:
        "This does not show who opened it or when, nor that service and sender are strangers to each other.",
        "这不能证明是谁在何时拆开的，也不能证明系统与发红包的人没有串通。";
    proof_bad_commitment: "The fingerprint does not fit the seed.", "指纹与种子不符。";
    proof_unknown_rule:
        "This page cannot check this kind of split. Reload it, or use `qiang split verify`.",
        "本页面无法验证这种分配方式。请刷新页面，或使用 qiang split verify。";
    proof_bad_share: "Draw {number} is not what was promised.", "第 {number} 份与承诺不符。";
    amount: "Amount", "金额";
    currency: "Currency", "币种";
    shares: "Shares", "个数";
    greeting: "Greeting", "祝福语";
    greeting_default: "Best wishes!", "恭喜发财，大吉大利！";
    rule: "How it is split", "分配方式";
    rule_double_average: "Luck, evenly for all (double average)", "拼手气（二倍均值）";
    rule_normal: "Luck around the mean (bell curve)", "拼手气（正态）";
    rule_lazy: "Luck, drawn when opened", "拼手气（拆开时计算）";
    rule_equal: "The same for all", "普通红包（均分）";
    spread: "What one share may be", "每份可能的金额";
    spread_help:
        "Each share is between {low} and {high}. About half are between {from} and {to}.",
        "每份 {low} 至 {high}，约一半在 {from} 至 {to} 之间。";
    bad_amount: "Enter an amount such as {example}, without commas.", "请输入金额，如 {example}，不含逗号。";
    bad_currency: "Enter a currency code such as CNY.", "请输入币种代码，如 CNY。";
    bad_shares: "Enter a whole number, at least 1.", "请输入整数，至少为 1。";
    bad_greeting: "Enter a greeting.", "请输入祝福语。";
    too_little_each: "Enter at least {least}, so that no share is empty.", "金额至少为 {least}，每份才不为空。";
    balance: "Your balance: {amount}", "余额：{amount}";
    send: "Send", "塞钱进红包";
    sent: "Sent. Share this link:", "已发出，分享此链接：";
    copy: "Copy", "复制";
    copied: "Copied", "已复制";
    see_it: "See it", "查看";
    sent_by_me: "Sent by me", "我发出的";
    send_another: "Send another", "再发一个";
    put_in: "Put {amount} in", "存入 {amount}";
    put_in_help: "For trying out: it costs nothing.", "试用：不花一分钱。";
    put_in_done: "{amount} is in your account.", "{amount} 已存入你的账户。";
    buy: "Buy", "抢购";
    buying: "Asking…", "正在抢购…";
    quantity: "Quantity", "数量";
    price: "Price", "价格";
    in_line: "In line: {ahead} before you", "排队中：前面还有 {ahead} 人";
    in_line_kept:
        "In line: {ahead} before you. Your place is kept.",
        "排队中：前面还有 {ahead} 人，位置会为你保留。";
    yours: "Yours: {quantity}", "抢到了：{quantity} 件";
    units_of: "Quantity: {quantity}", "数量：{quantity} 件";
    granted: "Got it! Pay before the time is over.", "抢到了！请在时限内付款。";
    pay_within: "Pay within", "请在此时间内付款：";
    pay_by: "Pay by", "最晚付款时间：";
    pay_now: "Pay", "去付款";
    held: "Not paid yet", "待付款";
    paid_late: "The time was over. What you paid is owed back to you.", "付款已超时，款项将退还给你。";
    see_sale: "See the sale", "查看活动";
    pay: "Pay {amount}", "付款 {amount}";
    pay_sandbox: "Pay {amount} (sandbox)", "付款 {amount}（模拟）";
    pay_elsewhere: "Pay in the shop’s app.", "请在商家应用内付款。";
    paid: "Paid. Thank you!", "已付款，谢谢！";
    free: "Free of charge", "免费，无需付款";
    cancel: "Cancel", "取消订单";
    cancelled: "Cancelled", "已取消";
    expired: "The time to pay is over", "付款时间已过";
    returned: "Returned", "已退货";
    returned_part: "{returned} of {quantity} returned", "已退 {returned} 件，共 {quantity} 件";
    sold_out: "Sold out", "已售罄";
    come_back: "Units may come back: when orders are not paid", "若有人未付款，名额会回来";
    came_back: "{remaining} came back!", "有 {remaining} 件回来了！";
    limit: "At most {limit} for each", "每人限购 {limit} 件";
    accepts_over: "If you pay more than the price, the difference is not refunded.", "多付的差额不予退还。";
    accepts_within:
        "A payment of up to {tolerance} more or less pays the order. The difference is not refunded.",
        "付款金额相差不超过 {tolerance} 即视为已付款，差额不予退还。";
    limit_reached: "You have as many as you may", "已达限购数量";
    again_later: "Many are asking. Try again.", "人太多了，请再试。";
    too_often: "You are asking too often. Wait a moment, then try again.", "操作太频繁，请稍后再试。";
    sent_too_many: "You have sent many red packets. Try again in a minute.", "红包发得太频繁，请一分钟后再试。";
    too_little: "Your balance is too small for this.", "余额不足。";
    not_begun: "It has not begun yet.", "活动尚未开始。";
    not_now: "Nothing is given out just now. Try again in a moment.", "暂时无法领取，请稍后再试。";
    passphrase_wrong: "This is not the passphrase.", "口令不对。";
    impossible_wish: "This is not possible. Check what you entered.", "无法完成，请检查填写的内容。";
    changed: "It has changed meanwhile. Look again.", "情况已变化，请重新查看。";
    signed_out: "You are signed out. Sign in again.", "登录已失效，请重新登录。";
    may_not: "You may not do this.", "你没有此权限。";
    shop_refuses: "The shop does not allow this order.", "商家不接受此订单。";
    check_failed: "The check took too long. Try again.", "验证已过期，请再试。";
    did_not_work: "It did not work. Try again in a moment.", "未成功，请稍后再试。";
    not_for_you: "This is for other users.", "此活动不对你开放。";
    no_such: "There is nothing here.", "这里什么也没有。";
    no_such_help: "Check the link.", "请检查链接。";
    trouble: "Something is wrong. Try again in a moment.", "出了点问题，请稍后再试。";
    unknown_problem: "It did not work: {title}", "未成功：{title}";
    day: "d", "天";
    none_yet: "None yet.", "还没有。";
    back_home: "Home", "首页";
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::desk_texts::Texts as Desk;

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
        check(None, "", "fr, zh-TW;q=0.5", Language::Chinese);
        check(None, "a=1; language=en", "zh", Language::English);
        check(Some("zh"), "language=en", "en", Language::Chinese);
        check(Some("xx"), "", "zh", Language::English);
    }

    #[test]
    fn both_languages_fill_in_the_same() {
        let languages = [Language::English, Language::Chinese];
        let pages = languages.map(|language| serde_json::to_value(language.texts()).unwrap());
        let desk =
            languages.map(|language| serde_json::to_value(Desk::for_language(language)).unwrap());
        for both in [pages, desk] {
            check(&both);
        }
    }

    fn check(both: &[serde_json::Value; 2]) {
        for (name, english) in both[0].as_object().unwrap() {
            let names = |text: &serde_json::Value| {
                let text = text.as_str().unwrap();
                let mut names: Vec<_> = text
                    .split('{')
                    .skip(1)
                    .map(|rest| rest.split(['}', ':']).next().unwrap().to_owned())
                    .collect();
                names.sort();
                names.dedup();
                names
            };
            assert_eq!(names(english), names(&both[1][name]), "{name}");
        }
    }
}
