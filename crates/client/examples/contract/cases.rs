//! Cases of claims, money, lists and errors.

use std::{
    collections::BTreeMap,
    env,
    error::Error as StdError,
    pin::pin,
    time::{Duration, SystemTime},
};

use futures_util::StreamExt as _;
use qiang_client::*;
use serde_json::{Value, json};

use crate::{
    check,
    suite::{
        CaseResult, PRICE, SELLER_SCOPES, all, buyer, client, fresh, granted, granted_units, price,
        refusal, sale_of, seller, wait_until,
    },
};

pub(crate) async fn claim() -> CaseResult {
    let sale = sale_of(&seller()?).await?;
    let ann = buyer("")?.build()?;
    let order = granted(ann.order(&sale.id, &NewOrder::units(2)).await?)?;
    check!(order.id.as_str().starts_with(sale.id.as_str()), order);
    check!(
        order.state == OrderState::Held && order.quantity == 2,
        order
    );
    check!(order.amount.amount == 2 * PRICE, order);
    check!(ann.get_order(&order.id).await?.id == order.id, order);
    check!(granted_units(&ann, &sale).await? == 2, sale);
    Ok(())
}

pub(crate) async fn share() -> CaseResult {
    let name = fresh("sender");
    let shop = client(&name, SELLER_SCOPES, "")?.build()?;
    let thousand = Money::new(1_000, "CNY".parse()?);
    shop.deposit(&name.parse()?, &fresh("bank"), thousand)
        .await?;
    let packet = NewRedPacket::new("恭喜", thousand, 2, SplitRuleName::Equal);
    let packet = shop.create_red_packet(&packet).await?;
    let ann = buyer("")?.build()?;
    let first = granted(
        ann.claim_share(&packet.id, &NewClaim::with_defaults())
            .await?,
    )?;
    let again = granted(
        ann.claim_share(&packet.id, &NewClaim::with_defaults())
            .await?,
    )?;
    check!(first.amount.amount == 500 && again.id == first.id, again);
    Ok(())
}

pub(crate) async fn replay() -> CaseResult {
    let sale = sale_of(&seller()?).await?;
    let ann = buyer("")?.build()?.with_key(IdempotencyKey::random());
    let first = granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let second = granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    check!(first.id == second.id, second);
    check!(granted_units(&ann, &sale).await? == 1, sale);
    let reused = refusal(ann.order(&sale.id, &NewOrder::units(2)).await)?;
    check!(
        reused.kind() == "key-reused" && reused.status == 422,
        reused
    );
    Ok(())
}

pub(crate) async fn sold_out() -> CaseResult {
    let sale = NewSale::new("lamps", 1, price()?);
    let sale = seller()?.create_sale(&sale).await?;
    let (ann, ben) = (buyer("")?.build()?, buyer("")?.build()?);
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let late = refusal(ben.order(&sale.id, &NewOrder::units(1)).await)?;
    check!(late.kind() == "sold-out" && late.status == 409, late);
    check!(late.outcome.as_deref() == Some("sold_out"), late);
    let again = refusal(ann.order(&sale.id, &NewOrder::units(1)).await)?;
    check!(again.kind() == "limit-reached", again);
    Ok(())
}

pub(crate) async fn paging() -> CaseResult {
    let shop = seller()?;
    let mut first = Vec::new();
    for _ in 0..7 {
        first.insert(0, sale_of(&shop).await?.id);
    }
    let listing = Listing {
        newest_first: true,
        page_size: Some(3),
        ..Listing::default()
    };
    let mut sales = pin!(shop.sales(&listing));
    let mut read = Vec::new();
    while let Some(sale) = sales.next().await {
        read.push(sale?.id);
        // It is newer than all pages that follow.
        if read.len() == 2 {
            sale_of(&shop).await?;
        }
    }
    check!(read == first, read);
    check!(all(shop.sales(&listing)).await?.len() == 8, first);
    Ok(())
}

pub(crate) async fn events() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let mut hook = NewWebhook::new("http://127.0.0.1:9/");
    hook.campaigns = Some(vec![sale.id.clone()]);
    let hook = shop.create_webhook(&hook).await?;
    let ann = buyer("")?.build()?;
    let mut cursor = None;
    // The second round continues from the kept cursor.
    for _ in 0..2 {
        let order = granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
        let mut found = Vec::new();
        for _ in 0..200 {
            let page = shop.recorded_events(cursor.as_deref()).await?;
            cursor = page.next.or(cursor);
            let is_last = page.data.is_empty();
            let own = page.data.into_iter().map(|event| event.data);
            let own = own.filter(|data| data["campaign"] == sale.id.as_str());
            found.extend(own.map(|data| data["order"].clone()));
            if is_last && !found.is_empty() {
                break;
            }
            if is_last {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        check!(found == [json!(order.id.as_str())], found);
    }
    shop.delete_webhook(&hook.id).await?;
    Ok(())
}

pub(crate) async fn webhook_signature() -> CaseResult {
    let text = std::fs::read_to_string(env::var("QIANG_SIGNATURES")?)?;
    let table: Value = serde_json::from_str(&text)?;
    let now = table["now"].as_u64().ok_or("no time")?;
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    for case in table["cases"].as_array().into_iter().flatten() {
        let secrets: Vec<String> = serde_json::from_value(case["secrets"].clone())?;
        let body = case["body"].as_str().unwrap_or_default().as_bytes();
        let header = |name: &str| case["headers"][name].as_str();
        let event = WebhookVerifier::new(&secrets)?.verify(header, body, now);
        check!(event.is_ok() == (case["accepted"] == true), case["name"]);
        let is_whole = event.as_ref().ok().is_none_or(|event| {
            event.r#type == WebhookEventType::OrderPaid && event.data["user"] == "李雷"
        });
        check!(is_whole, event);
    }
    Ok(())
}

pub(crate) async fn payment() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let name = fresh("buyer");
    let ann = client(&name, "claim", "")?.build()?;
    let order = granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let pay = |user: &str| -> Result<NewPayment, Box<dyn StdError>> {
        let mut payment = NewPayment::with_defaults(fresh("pay"), price()?);
        payment.user = Some(user.parse()?);
        Ok(payment)
    };
    let other = refusal(shop.pay_order(&order.id, &pay(&fresh("other"))?).await)?;
    check!(other.kind() == "user-mismatch", other);
    let report = pay(&name)?;
    for _ in 0..2 {
        let paid = shop.pay_order(&order.id, &report).await?;
        check!(paid.outcome == PaymentOutcome::Paid, paid);
        check!(paid.order.state == OrderState::Paid, paid);
    }
    let second = shop.pay_order(&order.id, &pay(&name)?).await?;
    check!(second.outcome == PaymentOutcome::RefundDue, second);
    let refund = NewPayment::with_defaults(fresh("refund"), price()?);
    wait_until(async || Ok(shop.refunds(&order.id).await?.due.amount == PRICE)).await?;
    for _ in 0..2 {
        let refunded = shop.refund_order(&order.id, &refund).await?;
        check!(refunded.reference.as_str() == refund.reference, refunded);
    }
    wait_until(async || Ok(shop.refunds(&order.id).await?.refunded.amount == PRICE)).await?;
    let filter = PaymentFilter {
        reference: Some(report.reference),
        ..PaymentFilter::default()
    };
    let listed = all(shop.list_payments(&filter)).await?;
    check!(listed.len() == 1, listed);
    Ok(())
}

pub(crate) async fn cancel() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let name = fresh("buyer");
    let ann = client(&name, "claim", "")?.build()?;
    let lossy = client(&name, "claim", "drop-first")?.build()?;
    let order = granted(ann.order(&sale.id, &NewOrder::units(3)).await?)?;
    let part = lossy.cancel_units(&order.id, 1).await?;
    check!(part.quantity == 2 && part.cancelled_quantity == 1, part);
    check!(part.state == OrderState::Held, part);
    for client in [&lossy, &ann] {
        let cancelled = client.cancel_order(&order.id).await?;
        check!(cancelled.state == OrderState::Cancelled, cancelled);
    }
    check!(shop.state(&sale.id).await?.state.remaining == 10, sale);
    let paid = granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let payment = NewPayment::with_defaults(fresh("pay"), price()?);
    shop.pay_order(&paid.id, &payment).await?;
    let conflict = refusal(ann.cancel_order(&paid.id).await)?;
    check!(
        conflict.kind() == "order-conflict" && conflict.status == 409,
        conflict
    );
    Ok(())
}

pub(crate) async fn errors() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let ann = buyer("")?.build()?;
    let wrong = refusal(ann.order(&sale.id, &NewOrder::units(0)).await)?;
    check!(wrong.kind() == "invalid" && wrong.status == 422, wrong);
    check!(
        wrong.errors[0].pointer.as_deref() == Some("#/quantity"),
        wrong
    );
    check!(wrong.request_id.is_some(), wrong);
    let nowhere: CampaignId = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse()?;
    let unknown = refusal(ann.sale(&nowhere).await)?;
    check!(
        unknown.kind() == "unknown-campaign" && unknown.status == 404,
        unknown
    );
    let claim = refusal(ann.order(&nowhere, &NewOrder::units(1)).await)?;
    check!(claim.outcome.as_deref() == Some("unknown_campaign"), claim);
    let stranger = shop.with_token("wrong")?;
    let stranger = refusal(stranger.account(&"ann".parse()?).await)?;
    check!(
        stranger.kind() == "unauthenticated" && stranger.status == 401,
        stranger
    );
    let forbidden = NewSale::new("lamps", 1, price()?);
    let forbidden = refusal(ann.create_sale(&forbidden).await)?;
    check!(
        forbidden.kind() == "forbidden" && forbidden.status == 403,
        forbidden
    );
    let scope = forbidden.scope.as_deref().unwrap_or_default();
    check!(scope.contains("campaigns:write"), forbidden);
    Ok(())
}

pub(crate) async fn new_words() -> CaseResult {
    let sale = NewSale::new("lamps", 1, price()?);
    let sale = seller()?.create_sale(&sale).await?;
    let later = buyer("new-words")?.build()?;
    check!(
        later.state(&sale.id).await?.state.phase == Phase::Other,
        sale
    );
    let ann = buyer("")?.build()?;
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let late = refusal(later.order(&sale.id, &NewOrder::units(1)).await)?;
    check!(late.kind() == "sold-over", late);
    check!(late.outcome.as_deref() == Some("sold_over"), late);
    Ok(())
}

pub(crate) async fn ticket() -> CaseResult {
    let shop = seller()?;
    let mut sale = NewSale::new("lamps", 5, price()?);
    sale.requirements = Some(vec![Requirement::Ticket]);
    let sale = shop.create_sale(&sale).await?;
    let (ann, ben) = (buyer("")?.build()?, buyer("")?.build()?);
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let mut order = NewOrder::units(1);
    order.ticket = Some(ben.sale_ticket(&sale.id).await?);
    granted(ben.order(&sale.id, &order).await?)?;
    check!(granted_units(&shop, &sale).await? == 2, sale);
    Ok(())
}

pub(crate) async fn queue() -> CaseResult {
    let shop = seller()?;
    let mut sale = NewSale::new("lamps", 5, price()?);
    sale.waiting_room = Some(true);
    let sale = shop.create_sale(&sale).await?;
    shop.pause(&sale.id).await?;
    let ann = buyer("")?.build()?;
    let claim = ann.order(&sale.id, &NewOrder::units(1)).await?;
    check!(
        matches!(&claim, ClaimResult::Waiting(place) if place.state == PlaceState::Waiting),
        claim
    );
    let still = ann.wait_in_line(&sale.id, Duration::from_millis(100)).await;
    check!(still.is_err(), still);
    shop.resume(&sale.id).await?;
    let place = ann.wait_in_line(&sale.id, Duration::from_secs(20)).await?;
    let order = place.order.ok_or("no order")?;
    check!(order.state == OrderState::Held, order);
    Ok(())
}

pub(crate) async fn change() -> CaseResult {
    let shop = seller()?;
    let mut sale = NewSale::new("lamps", 5, price()?);
    sale.description = Some("bright".to_owned());
    sale.product_id = Some("lamp-1".parse()?);
    let sale = shop.create_sale(&sale).await?;
    let mut change = SaleChange::with_defaults();
    change.title = Some("lights".to_owned());
    change.description = Some(None);
    let changed = shop.change_sale(&sale.id, &change).await?;
    check!(
        changed.title == "lights" && changed.description.is_none(),
        changed
    );
    check!(changed.product_id == Some("lamp-1".parse()?), changed);
    let text = |value: &str| Some(value.to_owned());
    let mut change = MetadataChange::with_defaults();
    change.reference = Some(text("PO-1"));
    let both = [("channel", text("app")), ("shelf", text("4"))];
    change.metadata = Some(BTreeMap::from(
        both.map(|(name, value)| (name.to_owned(), value)),
    ));
    shop.change_campaign_metadata(&sale.id, &change).await?;
    let mut removal = MetadataChange::with_defaults();
    removal.metadata = Some(BTreeMap::from([("shelf".to_owned(), None)]));
    let left = shop.change_campaign_metadata(&sale.id, &removal).await?;
    check!(left.reference.as_deref() == Some("PO-1"), left);
    let app = BTreeMap::from([("channel".to_owned(), "app".to_owned())]);
    check!(left.metadata == app, left);
    Ok(())
}
