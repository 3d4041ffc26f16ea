//! What the operator's desk says.

use serde::Serialize;

use crate::language::{Language, texts};

texts! {
    desk: "Operator’s desk", "运营台";
    for_operators: "This desk is for operators", "运营台仅供运营人员使用";
    for_operators_help:
        "It needs one of the scopes campaigns:write, campaigns:write:any and read:any. You have: {scopes}.",
        "需要以下权限之一：campaigns:write、campaigns:write:any、read:any。你拥有：{scopes}。";
    no_scopes: "none", "无";
    you_may: "Your scopes:", "你的权限：";
    only_own: "You see your own campaigns. Those of others need the scope read:any.",
        "只显示你自己的活动。查看他人的活动需要 read:any 权限。";
    new_sale: "Open a sale", "新建秒杀";
    search: "Search", "搜索";
    kind: "Kind", "类型";
    sales: "Sales", "秒杀";
    packets: "Red packets", "红包";
    state: "State", "状态";
    any: "any", "全部";
    since: "Created within", "创建时间";
    a_day: "a day", "一天内";
    a_week: "a week", "一周内";
    a_month: "a month", "一个月内";
    ever: "any time", "不限";
    words: "Words", "关键词";
    words_help: "In the title, the product, the owner or the id.", "在标题、商品、所有者或编号中查找。";
    owner: "Owner", "所有者";
    with_archived: "archived, too", "包括已归档";
    found: "{count} found, the newest first.", "找到 {count} 个，最新的在前。";
    found_many: "{count} found in the oldest {seen} of this time. Search in less of it.",
        "在该时段最早的 {seen} 个中找到 {count} 个。请缩小范围。";
    searching: "Searching…", "正在搜索…";
    draft: "draft", "草稿";
    scheduled: "scheduled", "未开始";
    live: "live", "进行中";
    paused: "paused", "已暂停";
    ended: "ended", "已到期";
    closed: "closed", "已关闭";
    archived: "archived", "已归档";
    title: "Title", "标题";
    description: "Description", "描述";
    product: "Product", "商品编号";
    picture: "Picture (URL)", "图片网址";
    stock: "Stock", "库存";
    unit_price: "Price of one", "单价";
    currency: "Currency", "币种";
    limit: "Limit a user", "每人限购";
    hold: "Minutes to pay", "付款时限（分钟）";
    starts: "Starts", "开始时间";
    ends: "Ends", "结束时间";
    starts_help: "Your time. Empty: now.", "你的本地时间。留空：立即开始。";
    ends_help: "Your time. Empty: 24 hours after the start.", "你的本地时间。留空：开始后 24 小时。";
    seller: "Seller", "卖家";
    seller_help: "Empty: you. Others need the scope campaigns:write:any.",
        "留空：你自己。他人需要 campaigns:write:any 权限。";
    ticket: "Claims need a grab ticket", "抢购需要令牌（防机器人）";
    line: "Claims wait in line", "抢购需排队";
    passphrase: "Passphrase, if not for everybody", "口令（不对所有人开放时）";
    create: "Open the sale", "创建";
    not_you: "You need the scope {scope} for this.", "此操作需要 {scope} 权限。";
    bad_title: "1 to 1,024 characters.", "1 到 1024 个字符。";
    bad_description: "At most 4,096 characters.", "最多 4096 个字符。";
    bad_id: "Up to 128 letters, digits and signs, without blanks.", "最多 128 个字母、数字或符号，不含空格。";
    bad_picture: "https://… or a path that begins with /.", "https://… 或以 / 开头的路径。";
    bad_stock: "A whole number of 1 or more.", "1 或以上的整数。";
    bad_price: "An amount of this currency, such as 12.50.", "该币种的金额，如 12.50。";
    bad_currency: "Three capital letters, such as CNY.", "三个大写字母，如 CNY。";
    bad_total: "Stock and price together are too much.", "库存与单价相乘过大。";
    bad_limit: "1 up to the stock.", "1 到库存数。";
    bad_hold: "A whole number of minutes, 1 or more.", "1 或以上的整数分钟。";
    bad_ends: "After the start, and not in the past.", "晚于开始时间且不早于现在。";
    check_fields: "Correct what is marked.", "请更正标出的内容。";
    created: "Opened.", "已创建。";
    public_page: "The page for people", "公开页面";
    supply: "Supply", "总量";
    granted: "Granted", "已发放";
    remaining: "Remaining", "剩余";
    returned: "Returned", "已退回";
    window: "Window", "时间";
    rate: "{rate} granted in this second, {peak} at most; {remaining} of {supply} remain.",
        "这一秒发放 {rate}，最高 {peak}；剩余 {remaining}/{supply}。";
    chart: "The last two minutes", "最近两分钟";
    chart_help: "Bars: grants a second. Line: what remains.", "柱：每秒发放数。线：剩余。";
    pause: "Pause", "暂停";
    resume: "Resume", "恢复";
    close: "Close…", "关闭…";
    close_title: "Close this campaign?", "关闭此活动？";
    close_help:
        "Nothing more is granted, and what is left goes back. It cannot be opened again.",
        "将停止发放，剩余部分退回，且无法再次打开。";
    close_yes: "Close it", "确认关闭";
    close_no: "Keep it", "取消";
    change_stock: "Change the stock", "修改库存";
    stock_granted: "Users have more units than that.", "用户已获得的数量超过此值。";
    done: "Done.", "完成。";
    orders: "Orders", "订单";
    draws: "Draws", "领取记录";
    number: "No.", "序号";
    user: "User", "用户";
    quantity: "Units", "数量";
    amount: "Amount", "金额";
    time: "Time", "时间";
    order_held: "held", "待付款";
    order_paid: "paid", "已付款";
    order_cancelled: "cancelled", "已取消";
    order_expired: "expired", "已超时";
    order_returned: "returned", "已退货";
    nobody_has: "Nobody has any yet.", "还没有人领取。";
    more: "More", "更多";
    again: "Again", "刷新";
    csv: "Save all as CSV", "全部导出 CSV";
    lines_read: "{count} read.", "已读取 {count} 条。";
    lines_many: "The first {count} are in the file. The API lists them all.", "文件只含前 {count} 条，其余请用 API。";
    lookup: "Orders and users", "订单与用户";
    wanted: "An order’s id, or a user", "订单编号或用户";
    wanted_help: "An order’s id is that of its sale, and a number.", "订单编号由秒杀编号加序号组成。";
    due: "Owed back", "应退款";
    refunded: "Paid back", "已退款";
    available: "Available", "可用余额";
    nothing: "nothing", "无";
    sale: "Sale", "秒杀";
    did_deposit: "put money in", "充值";
    did_withdraw: "paid out", "提现";
    did_reverse: "took a deposit back", "撤销充值";
    did_pay: "reported a payment", "登记付款";
    did_refund: "paid back", "登记退款";
    did_cancel: "cancelled it", "取消订单";
    did_return: "took it back", "登记退货";
    who: "Who did what", "操作记录";
    who_hidden: "You need the scope read:any to see who did what.", "查看操作记录需要 read:any 权限。";
    nobody: "Nobody has done anything yet.", "还没有操作。";
    did_create: "created it", "创建";
    did_change: "changed it", "修改";
    did_pause: "paused it", "暂停";
    did_resume: "resumed it", "恢复";
    did_close: "closed it", "关闭";
    did_archive: "archived it", "归档";
    role: "As", "身份";
    as_user: "a user", "用户";
    as_seller: "a seller, who leads the own campaigns", "卖家，管理自己的活动";
    as_operator: "an operator, who leads all campaigns", "运营人员，管理所有活动";
}

impl Texts {
    pub(crate) fn of(language: Language) -> &'static Self {
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }
}
