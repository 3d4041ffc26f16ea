//! Texts of the operators' desk.

use serde::Serialize;

use crate::language::{Language, texts};

texts! {
    desk: "Operator’s desk", "运营台";
    campaigns: "Campaigns", "活动";
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
    found_many: "{count} found among the newest {seen}.", "在最新的 {seen} 个中找到 {count} 个。";
    search_on: "Search older ones", "继续查找更早的";
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
    payment_policy: "Payments of another amount", "与应付金额不同的付款";
    policy_owed: "Refund them", "一律退款";
    policy_accept_over: "Accept more than the price", "接受高于应付金额的付款";
    policy_accept_with_tolerance: "Accept small differences", "接受小额差异";
    tolerance: "Largest difference", "最大差额";
    tolerance_help: "Above and below the price. Nothing accepted is refunded.", "高于或低于应付金额均可。接受的款项不退差额。";
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
    bad_passphrase: "4 to 128 characters, at least 6 if all are digits.", "4 到 128 个字符，若全为数字则至少 6 个。";
    bad_picture: "https://… or a path that begins with /.", "https://… 或以 / 开头的路径。";
    bad_stock: "A whole number of 1 or more.", "1 或以上的整数。";
    bad_price: "An amount of this currency, such as 12.50.", "该币种的金额，如 12.50。";
    bad_currency: "A currency code, such as CNY.", "币种代码，如 CNY。";
    bad_total: "Stock and price together are too much.", "库存与单价相乘过大。";
    bad_limit: "1 up to the stock.", "1 到库存数。";
    bad_hold: "A whole number of minutes, 1 or more.", "1 或以上的整数分钟。";
    bad_policy: "A sale without a price refunds each payment.", "免费的秒杀只能一律退款。";
    bad_tolerance: "An amount of this currency, less than the price of one.", "该币种的金额，须小于单价。";
    bad_ends: "After the start, and not in the past.", "晚于开始时间且不早于现在。";
    check_fields: "Correct what is marked.", "请更正标出的内容。";
    created: "Opened.", "已创建。";
    public_page: "The page for people", "公开页面";
    supply: "Supply", "总量";
    granted: "Granted", "已发放";
    remaining: "Remaining", "剩余";
    returned: "Returned", "已退回";
    withheld: "Withheld", "已扣留";
    withheld_help:
        "A repair withholds these: users may have been granted them before Redis lost entries. They go back at the \
        close. To sell them now, give them back for the partition, under Operation, with qiang partition resume N \
        --release-withheld, or with POST /v1/partitions/N/release-withheld.",
        "修复扣留了这些份额：Redis 丢失条目之前可能已发放给用户。活动关闭时归还。如需立即发放，请在“运维”页归还该分区的扣留，\
        或使用 qiang partition resume N --release-withheld、POST /v1/partitions/N/release-withheld。";
    window: "Window", "时间";
    rate: "{rate} granted in this second, {peak} at most; {remaining} of {supply} remain.",
        "这一秒发放 {rate}，最高 {peak}；剩余 {remaining}/{supply}。";
    axis_rate: "{most} a second", "每秒 {most}";
    axis_units: "{supply} remain", "剩余 {supply}";
    axis_entries: "{most} {most:entry|entries}", "{most} 条";
    warm_draft: "The ledger has it, and the engine does not yet: nothing is granted. Nodes hand it over by themselves, \
            every few seconds, as soon as the engine answers.",
        "已记入账本，引擎尚未加载，暂不发放。引擎可用后节点会在数秒内自动加载。";
    warm_scheduled: "Warm: the engine has it already, and grants from its start on by itself.",
        "已预热：引擎已加载，到点自动开始。";
    updated: "Last changed", "最后修改";
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
    admission: "Users admitted at a time, per 100 units left", "每剩余 100 件同时放行的人数";
    admission_help: "100 to 10000; 0 admits all users. A lower number keeps more of a crowd away from the engine.",
        "100 到 10000；0 表示不限。数值越小，到达引擎的请求越少。";
    change_admission: "Change the admission", "修改放行比例";
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
    units_words: "{quantity} {quantity:unit|units}", "{quantity} 件";
    units_returned: "{quantity} {quantity:unit|units}, {returned} returned", "{quantity} 件，已退 {returned} 件";
    share_words: "share {number}", "第 {number} 份";
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
    live_title: "As it happens", "实时数据";
    live_help: "Charts show the last five minutes, a sample a second.", "图表显示最近五分钟，每秒一个采样。";
    live_lost: "The node does not answer; what it said before stays.", "节点无响应，保留此前的数据。";
    hold_charts: "Hold the charts", "暂停图表";
    ends_title: "Claims a second, by what they end in", "每秒请求数（按结果）";
    ends_words: "{rate} {rate:claim|claims} in this second, {most} at most: {ends}.", "这一秒 {rate} 次请求，最高 {most}：{ends}。";
    end_granted: "granted", "已发放";
    end_already_granted: "granted before", "此前已发放";
    end_sold_out: "sold out", "已售罄";
    end_limit_reached: "limit reached", "已达上限";
    end_paused: "paused", "已暂停";
    end_not_started: "not started", "未开始";
    end_ended: "ended", "已结束";
    end_unknown_campaign: "unknown campaign", "未知活动";
    end_throttled: "too often", "过于频繁";
    end_failed: "failed", "失败";
    end_unmet: "something missing", "条件未满足";
    end_waiting: "waits in line", "排队中";
    latency_title: "How long claims take", "请求耗时";
    latency_words:
        "Half within {p50} ms (green), nine tenths within {p90} ms (dashes), 99 of 100 within {p99} ms (dots); \
            {most} ms at most.",
        "一半在 {p50} ms 内（绿线），九成在 {p90} ms 内（虚线），99% 在 {p99} ms 内（点线）；最高 {most} ms。";
    latency_none: "No claims in this second.", "这一秒没有请求。";
    admitted_title: "Claims that reach a decision", "进入裁决的请求";
    admitted_words: "{share} of the claims reached whoever decides; {queue} wait there, {places} in line.",
        "{share} 的请求进入裁决；{queue} 个等待处理，{places} 个排队。";
    admitted: "Admitted", "进入裁决";
    claims_s: "Claims/s", "请求/秒";
    last_seconds: "The last 30 seconds in numbers", "最近 30 秒的数据";
    operation: "Operation", "运维";
    of_this_node: "Figures are of the node that serves this page.", "数据来自提供此页面的节点。";
    settlement_lag: "Waits for the ledger", "待入账";
    queue: "Waits for the engine", "待引擎处理";
    lag_help: "Bars: entries that wait for the ledger.", "柱：待入账条目数。";
    lag_chart: "{lag} {lag:entry waits|entries wait}, {peak} at most.", "{lag} 条待入账，最高 {peak}。";
    lag_words: "{lag} {lag:entry waits|entries wait} for the ledger", "{lag} 条待入账";
    quarantine_words: "{refused} refused, {waiting} wait for these", "{refused} 条被拒，{waiting} 条等待";
    no_differences: "engine and ledger agree", "引擎与账本一致";
    partitions: "Partitions", "分区";
    partition: "Partition", "分区";
    not_repairable: "This engine loses nothing that could be repaired.", "此引擎不会丢失需修复的数据。";
    details: "Details", "详情";
    no_details: "No other node, no repair, nothing withheld.", "没有其他节点、修复或扣留。";
    node_words: "Node {node}: seen {at}, observed entry {observed}", "节点 {node}：最近 {at}，已见条目 {observed}";
    repair_words: "Repair {at}: {lost} lost, {unnamed} unknown: {reason}", "修复 {at}：丢失 {lost}，未知 {unnamed}：{reason}";
    withheld_words: "Withheld: {units} {units:unit|units} of {campaign}", "扣留 {campaign} 的 {units} 份";
    was_withheld: "Withheld before, now released: {units} {units:unit|units} of {campaign}", "曾扣留 {campaign} 的 {units} 份，已归还";
    is_ready: "ready", "正常";
    is_degraded: "degraded", "降级";
    is_not_ready: "grants nothing", "停止发放";
    ran_words: "Compared at {at}; all of it at {passed}.", "最近对账 {at}；完整对账 {passed}。";
    not_yet: "no time yet", "尚无";
    reconcile_do: "Reconcile…", "对账…";
    reconcile_title: "Hold partition {n} against the ledger now?", "立即对账分区 {n}？";
    reconcile_help:
        "Everything live is compared, for some seconds at most. Nothing is changed: qiang reconcile --repair does \
        that.",
        "比较所有进行中的数据，最多几秒。不做修改；修复请用 qiang reconcile --repair。";
    reconciled: "Compared at {at}: {rows} {rows:row|rows} of {campaigns} {campaigns:campaign|campaigns}; {found}.",
        "{at} 已对账：{campaigns} 个活动的 {rows} 行；{found}。";
    reconciled_partly:
        "Compared in part at {at}: {rows} {rows:row|rows} of {campaigns} {campaigns:campaign|campaigns}; {found}.",
        "{at} 已对账：{campaigns} 个活动的 {rows} 行（未完成）；{found}。";
    repair_do: "Repair…", "修复…";
    repair_title: "Repair partition {n} now?", "立即修复分区 {n}？";
    repair_help: "Nobody is waited for: what nodes have not said yet counts as unknown, and is withheld.",
        "不再等待：节点尚未上报的内容视为未知并扣留。";
    repair_whole: "Nothing is lost.", "没有丢失。";
    repair_waiting: "Another process repairs it.", "另一个进程正在修复。";
    repair_repaired: "Repaired: {restored} {restored:row|rows} restored, {appended} {appended:entry|entries} appended, {withheld} \
        {withheld:unit|units} withheld.",
        "已修复：恢复 {restored} 行，补写 {appended} 条，扣留 {withheld} 份。";
    resume_do: "Resume without a repair…", "不修复直接恢复…";
    resume_title: "End the halt of partition {n} without a repair?", "不修复就恢复分区 {n}？";
    resume_help: "A loss is taken as it is: whoever was answered with what is lost does not get it back.",
        "接受丢失：已答复但丢失的结果不会恢复。";
    resumed: "It grants again.", "已恢复发放。";
    not_halted: "It is not halted.", "该分区未停止。";
    release_do: "Give back what is withheld…", "归还扣留…";
    release_title: "Give back what repairs of partition {n} withhold?", "归还分区 {n} 修复时扣留的份额？";
    release_help: "Nobody who was told of these units is to get them any more.", "此前被告知获得这些份额的人将不再得到。";
    released: "{units} {units:unit|units} released.", "{units} 份可再次发放。";
    quarantine: "Quarantine", "隔离区";
    quarantine_help: "Entries that the ledger refused. Correct the cause, then settle them.",
        "账本拒绝的条目。先排除原因，再重新入账。";
    no_quarantine: "Nothing is in quarantine.", "隔离区为空。";
    more_quarantine: "There are more. The API lists them all.", "还有更多，请用 API 查看。";
    redrive_do: "Settle it…", "重新入账…";
    redrive_title: "Try to settle entry {entry} again?", "重新入账条目 {entry}？";
    redrive_help: "If the ledger refuses it again, it stays where it is.", "若账本再次拒绝，则保持原状。";
    redriven: "Entry {entry} is settled.", "条目 {entry} 已入账。";
    audits: "Audits", "审计";
    audits_help: "Every rule is proved again from the rows, as of one moment, while everything goes on.",
        "在运行中按同一时刻的数据重新证明所有规则。";
    audit_start: "Audit now…", "立即审计…";
    audit_title: "Audit everything now?", "立即审计？";
    is_audit_running: "running", "进行中";
    is_audit_ok: "everything holds", "全部成立";
    is_audit_broken: "something is broken", "存在问题";
    is_audit_failed: "could not be read to the end", "未能完成";
    checks_words: "{made} {made:check|checks}, {broken} broken", "{made} 项检查，{broken} 项不成立";
    and_more: "and {rest} more", "另有 {rest} 条";
    webhooks: "Webhooks", "Webhook";
    no_webhooks: "There are none.", "没有。";
    is_webhook_ok: "delivers", "正常";
    is_webhook_failing: "fails, and is tried again", "失败，重试中";
    is_webhook_disabled: "disabled", "已停用";
    behind_words: "{behind} {behind:event|events} behind", "落后 {behind} 个事件";
    test_do: "Test…", "测试…";
    test_title: "Send a test event there?", "发送测试事件？";
    test_delivered: "The endpoint took it.", "端点已接收。";
    test_failed: "The endpoint did not take it: {why}", "端点未接收：{why}";
    again_do: "Try again, enable…", "重试并启用…";
    again_title: "Have this endpoint tried again at once?", "立即重试该端点？";
    again_help: "Also if it is disabled: it is told everything since then, in order.", "停用的端点也会重新启用，并按顺序补发。";
    leave_it: "Leave it", "取消";
    working: "Working…", "正在处理…";
    did_delete: "deleted it", "删除";
    did_redrive: "had it tried again", "重试";
    did_repair: "repaired a partition", "修复分区";
    did_reconcile: "reconciled a partition", "对账分区";
    did_release: "gave back what was withheld", "归还扣留";
    did_audit: "audited", "审计";
    postings: "Postings", "账目流水";
    no_postings: "None.", "无。";
    moved_deposit: "put in", "充值";
    moved_fund: "into a red packet", "发红包";
    moved_grant: "share of a red packet", "抢到红包";
    moved_refund: "back from a red packet", "红包退回";
    moved_residue: "rest of a red packet", "红包余款";
    moved_payment: "paid order", "订单付款";
    moved_refund_due: "owed back", "应退款";
    moved_return: "returned order", "订单退货";
    moved_refund_paid: "paid back", "已退款";
    moved_withdrawal: "paid out", "提现";
    moved_reversal: "deposit taken back", "撤销充值";
    role: "As", "身份";
    as_user: "a user", "用户";
    as_seller: "a seller, who leads the own campaigns", "卖家，管理自己的活动";
    as_admin: "an administrator, who looks after the service, too", "管理员，还负责运维";
    as_operator: "an operator, who leads all campaigns", "运营人员，管理所有活动";
}

impl Texts {
    pub(crate) fn for_language(language: Language) -> &'static Self {
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }
}
