//! Texts of the operators' desk.

use serde::Serialize;

use crate::language::texts;

texts! {
    desk: "Operations desk", "运营台";
    campaigns: "Campaigns", "活动";
    for_operators: "This desk is for operators", "运营台仅供运营人员使用";
    for_operators_help:
        "You need one of these scopes: campaigns:write, campaigns:write:any, read:any. You have: {scopes}.",
        "需要以下权限之一：campaigns:write、campaigns:write:any、read:any。你拥有：{scopes}。";
    no_scopes: "none", "无";
    you_may: "Your scopes:", "你的权限：";
    only_own: "These are your own campaigns. To see all, you need the scope read:any.",
        "仅显示你自己的活动。查看全部活动需要 read:any 权限。";
    new_sale: "New sale", "新建秒杀";
    new_packet: "New red packet", "新建红包";
    sums: "Key figures", "关键指标";
    dates: "Dates", "时间";
    sold: "Sold", "已售";
    value: "Order value", "订单金额";
    of: "{part} of {whole}", "{part}/{whole}";
    sum_live: "Live now", "进行中";
    sum_coming: "Coming up", "未开始";
    sum_units: "Units sold", "已售件数";
    duplicate: "Duplicate", "复制";
    copied_from: "Copied from “{title}”. Check the times, then create it.", "已从“{title}”复制，请确认时间后创建。";
    funnel: "Orders", "订单转化";
    funnel_help: "Orders by state, and what they amount to. Counts the first 20,000 orders.",
        "按状态统计的订单数与金额，最多统计前 20,000 单。";
    revenue: "Paid: {amount}", "已收款：{amount}";
    preview: "Preview", "预览";
    zone: "Times are in {name} ({offset}).", "时间为 {name}（{offset}）。";
    starts_now: "Starts when created", "创建后立即开始";
    starts_on: "Starts {time}", "{time} 开抢";
    limit_words: "limit {limit} per person", "每人限购 {limit} 件";
    greeting: "Greeting", "祝福语";
    total: "Total amount", "总金额";
    shares: "Shares", "个数";
    rule: "How to split", "分配方式";
    ends_packet_help: "Your local time. Unopened money returns then. Leave empty for 24 hours after the start.",
        "你的本地时间，到时未领取的金额退回。留空则为开始后 24 小时。";
    draws_shown: "Who sees the list of shares", "谁可查看领取详情";
    draws_all: "All users", "所有人";
    draws_grabbers: "Users who opened it", "领取者";
    draws_sender: "Only the sender", "仅发送人";
    create_packet: "Send red packet", "发红包";
    paid_from: "Paid from your balance: {amount}.", "从你的余额支付：{amount}。";
    bad_total_small: "Enter at least one minor unit per share.", "每份至少为最小货币单位。";
    by: "Search by", "搜索方式";
    by_payment: "Payment reference", "支付流水号";
    no_order_of_payment: "This payment has no order.", "该付款没有对应订单。";
    order_actions: "Actions", "操作";
    mark_paid: "Mark as paid…", "登记付款…";
    return_order: "Return units…", "退货…";
    record_refund: "Record refund…", "登记退款…";
    reverse_refund: "Reverse refund…", "撤销退款…";
    extend_hold: "Extend hold…", "延长保留时间…";
    held_until: "Held until", "保留至";
    extend_title: "Extend the hold of this order?", "延长该订单的保留时间？";
    extend_help: "The buyer can pay for as long again as the sale holds orders. An order’s hold is extended once.",
        "买家可再获得一次完整的付款时限。每个订单只能延长一次。";
    extend_do: "Extend hold", "延长保留时间";
    cancel_order: "Cancel order…", "取消订单…";
    reference: "Payment reference", "支付流水号";
    bad_units: "Enter a number from 1 to the units that are left.", "请输入 1 到剩余件数之间的整数。";
    payment_title: "Mark this order as paid?", "登记为已付款？";
    payment_help: "Only if the money has arrived. The reference comes from your payment service, and counts once.",
        "仅在款项已到账时登记。流水号由支付服务提供，只生效一次。";
    payment_do: "Mark as paid", "登记付款";
    return_title: "Return units of this order?", "退货？";
    return_help: "The units go back on sale, and their price becomes a refund due.", "退回的件数重新开售，对应金额记为应退款。";
    return_do: "Return units", "确认退货";
    refund_title: "Record a refund?", "登记退款？";
    refund_help: "Only if your payment service has sent the money. This doesn’t move any money.",
        "仅在支付服务已退款时登记，此操作不会转账。";
    refund_do: "Record refund", "登记退款";
    reversal_title: "Reverse a recorded refund?", "撤销已登记的退款？";
    reversal_help: "Enter the refund’s reference. Its money is due to the buyer again. This doesn’t move any money.",
        "请输入该退款的编号。款项将重新变为应退款。此操作不会移动任何资金。";
    reversal_do: "Reverse refund", "撤销退款";
    cancel_title: "Cancel this order?", "取消此订单？";
    cancel_help: "The buyer loses the units, and they go back on sale at once. This can’t be undone.",
        "买家将失去这些商品，商品立即重新开售，且无法撤销。";
    cancel_do: "Cancel order", "取消订单";
    search: "Search", "搜索";
    kind: "Kind", "类型";
    sales: "Sales", "秒杀";
    packets: "Red packets", "红包";
    state: "State", "状态";
    any: "All", "全部";
    since: "Created", "创建时间";
    a_day: "Last 24 hours", "近 24 小时";
    a_week: "Last 7 days", "近 7 天";
    a_month: "Last 31 days", "近 31 天";
    ever: "Any time", "不限";
    words: "Keywords", "关键词";
    words_help: "Searches title, product, owner and ID.", "按标题、商品、所有者或编号搜索。";
    owner: "Owner", "所有者";
    with_archived: "Include archived", "包括已归档";
    found: "{count} found.", "找到 {count} 个。";
    found_many: "{count} found in the newest {seen}.", "在最新的 {seen} 个中找到 {count} 个。";
    search_on: "Search older campaigns", "继续查找更早的活动";
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
    gallery: "More pictures (URLs)", "更多图片网址";
    gallery_help: "One per line, up to 8.", "每行一个，最多 8 个。";
    bad_gallery: "Enter up to 8 URLs, each https:// or a path that begins with /.",
        "最多 8 个网址，每个以 https:// 或 / 开头。";
    list_price: "List price (optional)", "原价（选填）";
    list_price_help: "Above the unit price. Buyers see the difference.", "须高于单价，买家会看到差价。";
    bad_list_price: "Enter an amount above the unit price.", "请输入高于单价的金额。";
    stock: "Stock", "库存";
    unit_price: "Unit price", "单价";
    currency: "Currency", "币种";
    limit: "Limit per person", "每人限购";
    hold: "Payment window (minutes)", "付款时限（分钟）";
    payment_policy: "Payments that differ from the price", "与应付金额不同的付款";
    policy_owed: "Refund", "一律退款";
    policy_accept_over: "Accept overpayments", "接受多付";
    policy_accept_with_tolerance: "Accept small differences", "接受小额差异";
    tolerance: "Maximum difference", "最大差额";
    tolerance_help: "Above or below the price. Accepted differences aren’t refunded.", "高于或低于应付金额均可，差额不退。";
    starts: "Starts", "开始时间";
    ends: "Ends", "结束时间";
    starts_help: "Your local time. Leave empty to start now.", "你的本地时间。留空则立即开始。";
    ends_help: "Your local time. Leave empty for 24 hours after the start.", "你的本地时间。留空则为开始后 24 小时。";
    seller: "Seller", "卖家";
    seller_help: "Leave empty for yourself. Others need the scope campaigns:write:any.",
        "留空则为你自己。指定他人需要 campaigns:write:any 权限。";
    ticket: "Require a grab ticket (bot protection)", "抢购需要令牌（防机器人）";
    line: "Queue claims", "开启排队";
    passphrase: "Passphrase (optional)", "口令（选填）";
    create: "Create sale", "创建秒杀";
    not_you: "You need the scope {scope}.", "此操作需要 {scope} 权限。";
    bad_title: "Enter 1 to 1,024 characters.", "请输入 1 到 1024 个字符。";
    bad_description: "Enter at most 4,096 characters.", "最多 4096 个字符。";
    bad_id: "Use up to 128 letters, digits and symbols, no spaces.", "最多 128 个字母、数字或符号，不含空格。";
    bad_passphrase: "Enter 4 to 128 characters; at least 6 if all are digits.", "请输入 4 到 128 个字符，若全为数字则至少 6 个。";
    bad_picture: "Enter an https:// URL, or a path that begins with /.", "请输入 https:// 网址，或以 / 开头的路径。";
    bad_stock: "Enter a whole number, at least 1.", "请输入整数，至少为 1。";
    bad_price: "Enter an amount in this currency, such as 12.50.", "请输入该币种的金额，如 12.50。";
    bad_currency: "Enter a currency code, such as CNY.", "请输入币种代码，如 CNY。";
    bad_total: "Stock times price is too large.", "库存与单价相乘过大。";
    bad_limit: "Enter a number from 1 to the stock.", "请输入 1 到库存数之间的整数。";
    bad_hold: "Enter whole minutes, at least 1.", "请输入整数分钟，至少为 1。";
    bad_policy: "A free sale can only refund payments.", "免费的秒杀只能一律退款。";
    bad_tolerance: "Enter an amount in this currency, less than the unit price.", "请输入该币种的金额，须小于单价。";
    bad_ends: "Enter a time after the start, not in the past.", "须晚于开始时间，且不早于现在。";
    check_fields: "Correct the marked fields.", "请更正标出的内容。";
    created: "Created.", "已创建。";
    public_page: "Public page", "公开页面";
    supply: "Supply", "总量";
    granted: "Granted", "已发放";
    remaining: "Remaining", "剩余";
    returned: "Returned", "已退回";
    withheld: "Withheld", "已扣留";
    withheld_help:
        "A repair withholds these units: users may have received them before Redis lost entries. They return at \
        the close. To sell them now, release them for the partition under Operation, with `qiang partition resume \
        N --release-withheld`, or with POST /v1/partitions/N/release-withheld.",
        "修复扣留了这些份额：Redis 丢失条目之前可能已发放给用户。活动关闭时归还。如需立即发放，请在“运维”页释放该分区的扣留份额，\
        或使用 qiang partition resume N --release-withheld、POST /v1/partitions/N/release-withheld。";
    window: "Window", "时间";
    rate: "{rate} granted this second, peak {peak}; {remaining} of {supply} remain.",
        "本秒发放 {rate}，峰值 {peak}；剩余 {remaining}/{supply}。";
    axis_rate: "{most} per second", "每秒 {most}";
    axis_units: "{supply} remain", "剩余 {supply}";
    axis_entries: "{most} {most:entry|entries}", "{most} 条";
    warm_draft: "Waiting for the engine: no grants yet. Nodes load it within seconds, once the engine answers.",
        "引擎尚未加载，暂不发放。引擎可用后，节点会在数秒内自动加载。";
    warm_scheduled: "Warm: the engine has it, and it starts on time.", "已预热：引擎已加载，到点自动开始。";
    updated: "Last changed", "最后修改";
    life: "Since the start", "活动全程";
    life_help: "Blue: orders placed. Green, dashed: orders paid.", "蓝线：累计下单。绿色虚线：累计付款。";
    life_help_packet: "Blue: shares opened.", "蓝线：累计领取。";
    life_words: "{count} {count:order|orders}, half of them by {half}; {paid} paid.",
        "共 {count} 单，{half} 前达到一半；已付款 {paid} 单。";
    life_words_packet: "{count} {count:share|shares} opened, half of them by {half}.", "共领取 {count} 个，{half} 前达到一半。";
    life_none: "Nothing granted yet.", "尚未发放。";
    life_sampled: "Drawn from {count} evenly spaced orders; payments are estimated.",
        "按 {count} 个等距样本绘制，付款数为估计值。";
    axis_grants: "{count} in total", "共 {count}";
    chart: "Last two minutes", "最近两分钟";
    chart_help: "Bars: grants per second. Line: units left.", "柱：每秒发放数。线：剩余。";
    pause: "Pause", "暂停";
    pause_help: "A pause stops claims only. Unpaid orders can still be paid and expire as usual, and the end does not \
            move.", "暂停只停止抢购：未付款订单仍可付款并照常过期，结束时间不变。";
    resume: "Resume", "恢复";
    start: "Start now", "立即开始";
    start_help: "Starts a scheduled sale at once. Its end does not move.", "让未开始的秒杀立即开始，结束时间不变。";
    cancel_held: "Cancel held orders…", "取消待付款订单…";
    cancel_held_title: "Cancel all held orders?", "取消所有待付款订单？";
    cancel_held_help: "The buyers see their orders cancelled. Unless the sale is paused or closed, the units are for \
            sale again at once. Paid orders stay.", "买家会看到订单已取消。若未暂停或关闭，这些库存会立即重新出售。已付款订单不变。";
    cancel_held_yes: "Cancel the orders", "确认取消订单";
    cancel_held_no: "Keep them", "保留";
    cancelled_held: "{cancelled} cancelled; {paid} were paid, {expired} had expired.",
        "已取消 {cancelled} 个订单；{paid} 个已付款、{expired} 个已超时，未变。";
    cancelled_held_unknown: "{unknown} are in the ledger only. Ask an operator to compare it with the engine.",
        "{unknown} 个订单仅存在于账本中，请联系运维对账。";
    close: "Close…", "关闭…";
    close_title: "Close this campaign?", "关闭此活动？";
    close_help: "No further grants are made, and the rest returns. A closed campaign can’t be reopened.",
        "关闭后停止发放，剩余部分退回，且无法重新打开。";
    close_yes: "Close campaign", "确认关闭";
    close_no: "Keep open", "取消";
    change_stock: "Update stock", "更新库存";
    admission: "Users admitted at once, per 100 units left", "每剩余 100 件同时放行的人数";
    admission_help: "100 to 10,000; 0 admits all users. Lower values let fewer requests reach the engine.",
        "100 到 10000；0 表示不限。数值越小，到达引擎的请求越少。";
    change_admission: "Update admission", "更新放行比例";
    stock_granted: "Users already have more units than that.", "用户已获得的数量超过此值。";
    done: "Done.", "完成。";
    orders: "Orders", "订单";
    draws: "Who got what", "领取详情";
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
    nobody_has: "No one has any yet.", "还没有人领取。";
    more: "Show more", "查看更多";
    again: "Refresh", "刷新";
    csv: "Export CSV", "导出 CSV";
    lines_read: "{count} read.", "已读取 {count} 条。";
    lines_many: "The file has the first {count}. Use the API for all.", "文件只含前 {count} 条，其余请用 API。";
    lookup: "Orders and users", "订单与用户";
    wanted: "Order ID or user", "订单编号或用户";
    wanted_help: "An order ID is the sale’s ID and a number.", "订单编号由秒杀编号加序号组成。";
    units_words: "{quantity} {quantity:unit|units}", "{quantity} 件";
    units_returned: "{quantity} {quantity:unit|units}, {returned} returned", "{quantity} 件，已退 {returned} 件";
    share_words: "share {number}", "第 {number} 份";
    due: "Refund due", "应退款";
    refunded: "Refunded", "已退款";
    available: "Available", "可用余额";
    nothing: "none", "无";
    sale: "Sale", "秒杀";
    did_deposit: "deposited", "充值";
    did_withdraw: "withdrew", "提现";
    did_transfer: "moved money to another user", "转账";
    did_reverse: "reversed a deposit or a refund", "撤销充值或退款";
    did_pay: "reported a payment", "登记付款";
    did_refund: "recorded a refund", "登记退款";
    did_cancel: "cancelled the order", "取消订单";
    did_return: "returned the order", "登记退货";
    did_extend_hold: "extended the hold", "延长了保留时间";
    who: "Activity log", "操作记录";
    who_hidden: "You need the scope read:any to see the activity log.", "查看操作记录需要 read:any 权限。";
    nobody: "No activity yet.", "还没有操作。";
    was: "before: {values}", "原值：{values}";
    did_create: "created it", "创建";
    did_change: "changed it", "修改";
    did_pause: "paused it", "暂停";
    did_resume: "resumed it", "恢复";
    did_start: "started it", "立即开始";
    did_close: "closed it", "关闭";
    did_archive: "archived it", "归档";
    live_title: "Live", "实时数据";
    live_help: "The last five minutes, one sample per second.", "最近五分钟，每秒一个采样。";
    live_lost: "Connection to the node lost. Showing the last data.", "与节点的连接已断开，显示最后的数据。";
    hold_charts: "Pause", "暂停";
    ends_title: "Claims per second, by outcome", "每秒请求数（按结果）";
    ends_words: "{rate} {rate:claim|claims} this second, peak {most}: {ends}.", "本秒 {rate} 次请求，峰值 {most}：{ends}。";
    end_granted: "granted", "已发放";
    end_already_granted: "already granted", "此前已发放";
    end_sold_out: "sold out", "已售罄";
    end_limit_reached: "limit reached", "已达上限";
    end_paused: "paused", "已暂停";
    end_not_started: "not started", "未开始";
    end_ended: "ended", "已结束";
    end_unknown_campaign: "unknown campaign", "未知活动";
    end_throttled: "rate limited", "过于频繁";
    end_failed: "failed", "失败";
    end_unmet: "requirement not met", "条件未满足";
    end_waiting: "queued", "排队中";
    latency_title: "Claim latency", "请求耗时";
    latency_words: "p50 {p50} ms (green), p90 {p90} ms (dashes), p99 {p99} ms (dots); peak {most} ms.",
        "p50 {p50} ms（绿线），p90 {p90} ms（虚线），p99 {p99} ms（点线）；峰值 {most} ms。";
    latency_none: "No claims this second.", "本秒没有请求。";
    admitted_title: "Claims that reach the engine", "到达引擎的请求";
    admitted_words: "{share} of claims reached the engine; {queue} wait there, {places} in the queue.",
        "{share} 的请求到达引擎；{queue} 个等待处理，{places} 个排队。";
    admitted_none: "No claims this second; {queue} wait for the engine, {places} in the queue.",
        "本秒没有请求；{queue} 个等待处理，{places} 个排队。";
    admitted: "Admitted", "放行";
    claims_s: "Claims/s", "请求/秒";
    last_seconds: "Last 30 seconds", "最近 30 秒";
    operation: "Operation", "运维";
    of_this_node: "Figures of the node that serves this page.", "数据来自提供此页面的节点。";
    settlement_lag: "Waiting for the ledger", "待入账";
    queue: "Waiting for the engine", "待引擎处理";
    lag_help: "Bars: entries waiting for the ledger.", "柱：待入账条目数。";
    lag_chart: "{lag} {lag:entry waits|entries wait}, peak {peak}.", "{lag} 条待入账，峰值 {peak}。";
    lag_words: "{lag} {lag:entry waits|entries wait} for the ledger", "{lag} 条待入账";
    quarantine_words: "{refused} refused, {waiting} waiting for them", "{refused} 条被拒，{waiting} 条等待";
    no_differences: "engine and ledger agree", "引擎与账本一致";
    partitions: "Partitions", "分区";
    partition: "Partition", "分区";
    not_repairable: "This engine needs no repair.", "此引擎不需要修复。";
    details: "Details", "详情";
    no_details: "No other nodes, repairs or withheld units.", "没有其他节点、修复或扣留。";
    node_words: "Node {node}: seen {at}, observed entry {observed}", "节点 {node}：最近 {at}，已见条目 {observed}";
    repair_words: "Repair {at}: {lost} lost, {unnamed} unknown: {reason}", "修复 {at}：丢失 {lost}，未知 {unnamed}：{reason}";
    withheld_words: "Withheld: {units} {units:unit|units} of {campaign}", "扣留 {campaign} 的 {units} 份";
    was_withheld: "Withheld before, now released: {units} {units:unit|units} of {campaign}",
        "曾扣留 {campaign} 的 {units} 份，已归还";
    is_ready: "ready", "正常";
    is_degraded: "degraded", "降级";
    is_not_ready: "not granting", "停止发放";
    ran_words: "Last compared {at}; fully compared {passed}.", "最近对账 {at}；完整对账 {passed}。";
    not_yet: "never", "尚无";
    reconcile_do: "Reconcile…", "对账…";
    reconcile_title: "Reconcile partition {n} now?", "立即对账分区 {n}？";
    reconcile_help:
        "Compares all live data within seconds. Changes nothing; to repair, use `qiang reconcile --repair`.",
        "比较所有进行中的数据，只需数秒，不做修改。修复请用 qiang reconcile --repair。";
    reconciled: "Compared at {at}: {rows} {rows:row|rows} of {campaigns} {campaigns:campaign|campaigns}; {found}.",
        "{at} 已对账：{campaigns} 个活动的 {rows} 行；{found}。";
    reconciled_partly:
        "Compared in part at {at}: {rows} {rows:row|rows} of {campaigns} {campaigns:campaign|campaigns}; {found}.",
        "{at} 已对账：{campaigns} 个活动的 {rows} 行（未完成）；{found}。";
    repair_do: "Repair…", "修复…";
    repair_title: "Repair partition {n} now?", "立即修复分区 {n}？";
    repair_help: "Doesn’t wait for nodes: what they have not reported counts as unknown, and is withheld.",
        "不再等待：节点尚未上报的内容视为未知并扣留。";
    repair_whole: "Nothing was lost.", "没有丢失。";
    repair_waiting: "Another process is repairing it.", "另一个进程正在修复。";
    repair_repaired:
        "Repaired: {restored} {restored:row|rows} restored, {appended} {appended:entry|entries} appended, \
        {withheld} {withheld:unit|units} withheld.",
        "已修复：恢复 {restored} 行，补写 {appended} 条，扣留 {withheld} 份。";
    resume_do: "Resume without repair…", "不修复直接恢复…";
    resume_title: "Resume partition {n} without a repair?", "不修复就恢复分区 {n}？";
    resume_help: "Accepts the loss: users whose grants were lost do not get them again.", "接受丢失：用户已丢失的结果不会恢复。";
    resumed: "Granting again.", "已恢复发放。";
    not_halted: "The partition is not halted.", "该分区未停止。";
    release_do: "Release withheld units…", "释放扣留份额…";
    release_title: "Release the units that partition {n} withholds?", "释放分区 {n} 扣留的份额？";
    release_help: "Users who may have received these units no longer get them.", "此前可能获得这些份额的用户将不再得到。";
    released: "{units} {units:unit|units} released.", "已释放 {units} 份。";
    quarantine: "Quarantine", "隔离区";
    quarantine_help: "Entries that the ledger refused. Fix the cause, then settle them.", "账本拒绝的条目。先排除原因，再重新入账。";
    no_quarantine: "Quarantine is empty.", "隔离区为空。";
    more_quarantine: "More entries exist. Use the API for all.", "还有更多，请用 API 查看。";
    redrive_do: "Settle…", "重新入账…";
    redrive_title: "Settle entry {entry} again?", "重新入账条目 {entry}？";
    redrive_help: "If the ledger refuses it again, it stays in quarantine.", "若账本再次拒绝，则仍留在隔离区。";
    redriven: "Entry {entry} settled.", "条目 {entry} 已入账。";
    audits: "Audits", "审计";
    audits_help: "Proves every rule from the rows of one moment, without stopping the service.",
        "在服务运行中，按同一时刻的数据重新证明所有规则。";
    audit_start: "Run audit…", "立即审计…";
    audit_title: "Run a full audit now?", "立即进行完整审计？";
    is_audit_running: "Running", "进行中";
    is_audit_ok: "All checks passed", "全部通过";
    is_audit_broken: "Some checks failed", "存在问题";
    is_audit_failed: "Audit incomplete", "未能完成";
    checks_words: "{made} {made:check|checks}, {broken} failed", "{made} 项检查，{broken} 项未通过";
    and_more: "and {rest} more", "另有 {rest} 条";
    webhooks: "Webhooks", "Webhook";
    no_webhooks: "No webhooks.", "没有 Webhook。";
    is_webhook_ok: "Delivering", "正常";
    is_webhook_failing: "Failing, retrying", "失败，重试中";
    is_webhook_disabled: "Disabled", "已停用";
    behind_words: "{behind} {behind:event|events} behind", "落后 {behind} 个事件";
    test_do: "Test…", "测试…";
    test_title: "Send a test event?", "发送测试事件？";
    test_delivered: "Test event delivered.", "测试事件已送达。";
    test_failed: "Test event not delivered: {why}", "测试事件未送达：{why}";
    again_do: "Retry and enable…", "重试并启用…";
    again_title: "Retry this endpoint now?", "立即重试该端点？";
    again_help: "A disabled endpoint is enabled too. It receives all missed events in order.", "停用的端点也会启用，并按顺序补发错过的事件。";
    deliveries: "Deliveries", "投递记录";
    delivery_state: "Attempts", "投递尝试";
    all_attempts: "All", "全部";
    is_delivery_delivered: "Delivered", "已送达";
    is_delivery_failed: "Failed, another attempt follows", "失败，将再次尝试";
    is_delivery_given_up: "Given up", "已放弃";
    no_deliveries: "No attempts.", "暂无投递尝试。";
    more_deliveries: "Older attempts exist. Use the API for all.", "还有更早的尝试，请用 API 查看。";
    attempt_words: "attempt {attempt}, {ms} ms, status {status}", "第 {attempt} 次，{ms} 毫秒，状态 {status}";
    next_attempt: "next attempt {at}", "下次尝试：{at}";
    redeliver_do: "Deliver again…", "重新投递…";
    redeliver_title: "Deliver this event again?", "重新投递该事件？";
    redeliver_help: "The endpoint receives event {event} once more, possibly after later events of its order.",
        "端点会再次收到事件 {event}，可能晚于同一订单的后续事件。";
    redelivered: "The event is due now.", "该事件将立即投递。";
    refused_reports: "Refused payment reports", "被拒的付款通知";
    refused_reports_help: "Of the last 7 days, newest first. Qiang records nothing of this money: return it at the \
            payment service.", "最近 7 天，最新在前。这些款项未入账，请在支付服务处退回。";
    no_refused_reports: "No payment report was refused.", "没有被拒的付款通知。";
    leave_it: "Cancel", "取消";
    gave_up: "Connection lost. Try again; nothing is done twice.", "网络异常，请重试，不会重复执行。";
    working: "Working…", "正在处理…";
    did_delete: "deleted it", "删除";
    did_redrive: "retried it", "重试";
    did_repair: "repaired a partition", "修复分区";
    did_reconcile: "reconciled a partition", "对账分区";
    did_release: "released withheld units", "释放扣留份额";
    did_audit: "ran an audit", "审计";
    postings: "Postings", "账目流水";
    no_postings: "None yet.", "暂无。";
    moved_deposit: "deposit", "充值";
    moved_fund: "red packet sent", "发红包";
    moved_grant: "share of a red packet", "抢到红包";
    moved_refund: "red packet refund", "红包退回";
    moved_residue: "red packet remainder", "红包余款";
    moved_payment: "order payment", "订单付款";
    moved_refund_due: "refund due", "应退款";
    moved_return: "order return", "订单退货";
    moved_refund_paid: "refund paid", "已退款";
    moved_withdrawal: "withdrawal", "提现";
    moved_reversal: "deposit reversed", "撤销充值";
    moved_transfer: "moved to another user", "用户间转账";
    moved_refund_reversal: "refund reversed", "撤销退款";
    import_title: "Import sales", "导入秒杀";
    import_help:
        "Choose a CSV file. It is checked first: each error names line and column, and nothing is created until you \
        import. A repeated import creates only what is missing.",
        "选择 CSV 文件。系统先检查文件，并指出每个错误所在的行与列；点击导入前不会创建任何活动。重复导入只会创建缺少的活动。";
    import_columns: "Required columns:", "必填列：";
    import_optional: "Optional:", "选填：";
    import_file: "CSV file (UTF-8)", "CSV 文件（UTF-8）";
    import_do: "Import", "导入";
    import_wrong: "Errors", "错误";
    import_line: "Line", "行";
    import_column: "Column", "列";
    import_error: "Error", "错误";
    file_good: "{count} {count:sale|sales} without an error. Nothing was created yet.", "{count} 个秒杀，没有错误。尚未创建。";
    file_wrong: "{count} {count:error|errors}. Nothing was created.", "{count} 个错误，未创建任何活动。";
    importing: "{count} of {all} imported…", "已导入 {count}/{all}…";
    imported:
        "{created} created, {present} present already, {refused} refused.",
        "新建 {created} 个，已存在 {present} 个，被拒 {refused} 个。";
    bad_utf8: "The text is not UTF-8.", "文本不是 UTF-8 编码。";
    bad_quotes: "A quotation mark has no end.", "引号没有配对。";
    bad_column: "There is no such column.", "没有此列。";
    bad_column_twice: "The column is there twice.", "此列重复。";
    bad_column_missing: "The column is missing.", "缺少此列。";
    bad_file_empty: "The file has no rows.", "文件没有数据行。";
    bad_file_long:
        "A file has up to {count} rows here. Use `qiang import sales` for more.",
        "此处文件最多 {count} 行，更多请用 qiang import sales。";
    bad_cells: "The row has {count} cells, the header {expected}.", "此行有 {count} 格，表头有 {expected} 格。";
    bad_missing: "Enter a value.", "请填写。";
    bad_same_id: "Line {line} has the same ID.", "第 {line} 行的编号相同。";
    bad_time: "Enter a time such as 2031-01-15T08:00:00Z.", "请输入时间，如 2031-01-15T08:00:00Z。";
    bad_hold_seconds: "Enter seconds from 1 to 2,592,000.", "请输入 1 到 2592000 之间的秒数。";
    bad_word: "This value isn’t known.", "无法识别此值。";
    bad_audience: "Audiences are not imported: without one, all users could claim.", "不导入参与资格：缺少资格限制时，所有人都能抢购。";
    copied_packet: "Copied from “{title}”. Check the amount, then send it.", "已从“{title}”复制，请确认金额后发送。";
    template: "Template", "模板";
    template_none: "None", "不使用";
    template_save: "Save as template", "存为模板";
    template_remove: "Delete template", "删除模板";
    template_saved: "Saved in this browser as “{name}”.", "已保存到此浏览器：{name}。";
    template_removed: "Template deleted.", "模板已删除。";
    template_unnamed: "Untitled", "未命名";
    template_flash: "Flash sale: 100 units, 1 per person", "限时秒杀：100 件，每人 1 件";
    template_drop: "Limited drop: queue and bot protection", "限量发售：排队与防机器人";
    template_free: "Giveaway: free of charge", "免费赠送";
    template_lucky: "Lucky draw: random amounts", "拼手气红包";
    template_gift: "Equal gifts", "普通红包";
    template_wedding: "Wedding", "新婚红包";
    role: "Role", "身份";
    as_user: "User", "用户";
    as_seller: "Seller: runs own campaigns", "卖家：管理自己的活动";
    as_admin: "Administrator: also runs the service", "管理员：还负责运维";
    as_operator: "Operator: runs all campaigns", "运营：管理所有活动";
}
