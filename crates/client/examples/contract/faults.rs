//! Cases in which requests and answers are lost, late or refused for now.

use std::{collections::BTreeSet, time::Duration};

use qiang_client::*;

use crate::{
    check,
    suite::{
        CaseResult, SELLER_SCOPES, all, buyer, client, error_of, fresh, granted, granted_units,
        price, requests_with, sale_of, seller,
    },
};

pub(crate) async fn throttled() -> CaseResult {
    let sale = sale_of(&seller()?).await?;
    let key = IdempotencyKey::random();
    let ann = buyer("throttle-first")?.build()?.with_key(key.clone());
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    let times = requests_with(&key)?;
    check!(times.len() == 2 && times[1] >= 1.0, times);
    Ok(())
}

pub(crate) async fn rate_limit() -> CaseResult {
    let mut sale = NewSale::new("lamps", 100, price()?);
    sale.per_user_limit = Some(100);
    let sale = seller()?.create_sale(&sale).await?;
    let ann = buyer("")?.build()?;
    let mut orders = BTreeSet::new();
    for _ in 0..23 {
        orders.insert(granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?.id);
    }
    check!(orders.len() == 23, orders);
    Ok(())
}

pub(crate) async fn lost_answer() -> CaseResult {
    let name = fresh("seller");
    let shop = client(&name, SELLER_SCOPES, "")?.build()?;
    let lossy = client(&name, SELLER_SCOPES, "drop-first")?.build()?;
    let reference = fresh("po");
    let mut sale = NewSale::new("lamps", 9, price()?);
    sale.reference = Some(reference.clone());
    let sale = lossy.create_sale(&sale).await?;
    let listing = Listing {
        reference: Some(reference),
        ..Listing::default()
    };
    let listed = all(shop.sales(&listing)).await?;
    check!(listed.len() == 1 && listed[0].id == sale.id, listed);
    let key = IdempotencyKey::random();
    let ann = buyer("drop-first")?.build()?.with_key(key.clone());
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    check!(requests_with(&key)?.len() == 2, key);
    check!(granted_units(&shop, &sale).await? == 1, sale);
    let user = name.parse()?;
    let money = Money::new(700, "CNY".parse()?);
    lossy.deposit(&user, &fresh("bank"), money).await?;
    let account = shop.account(&user).await?;
    check!(account.balances[0].available == money, account);
    Ok(())
}

pub(crate) async fn lost_request() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let key = IdempotencyKey::random();
    let ann = buyer("lose-first")?.build()?.with_key(key.clone());
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    check!(requests_with(&key)?.len() == 2, key);
    check!(granted_units(&shop, &sale).await? == 1, sale);
    Ok(())
}

pub(crate) async fn late_answer() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let ann = buyer("late-first")?.attempt_max(Duration::from_millis(500));
    granted(ann.build()?.order(&sale.id, &NewOrder::units(1)).await?)?;
    check!(granted_units(&shop, &sale).await? == 1, sale);
    Ok(())
}

pub(crate) async fn gave_up() -> CaseResult {
    let shop = seller()?;
    let sale = sale_of(&shop).await?;
    let name = fresh("buyer");
    let deaf = client(&name, "claim", "drop-all")?.deadline(Duration::from_millis(500));
    let error = error_of(deaf.build()?.order(&sale.id, &NewOrder::units(1)).await)?;
    check!(
        error.may_have_happened() && error.problem().is_none(),
        error
    );
    let key = error.key().ok_or("no key")?.clone();
    let ann = client(&name, "claim", "")?.build()?.with_key(key);
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    check!(granted_units(&shop, &sale).await? == 1, sale);
    Ok(())
}

pub(crate) async fn no_service() -> CaseResult {
    let client =
        Client::builder(&std::env::var("QIANG_NOWHERE")?).deadline(Duration::from_millis(300));
    let money = Money::new(1, "CNY".parse()?);
    let user = "ann".parse()?;
    let error = error_of(client.build()?.deposit(&user, "x", money).await)?;
    check!(
        !error.may_have_happened() && error.problem().is_none(),
        error
    );
    Ok(())
}

pub(crate) async fn gateway() -> CaseResult {
    let sale = sale_of(&seller()?).await?;
    let key = IdempotencyKey::random();
    let ann = buyer("gateway-first")?.build()?.with_key(key.clone());
    granted(ann.order(&sale.id, &NewOrder::units(1)).await?)?;
    check!(requests_with(&key)?.len() == 3, key);
    let pause = Duration::from_secs(1_000_000);
    let hasty = buyer("gateway-first")?.deadline(Duration::from_millis(500));
    let hasty = hasty.backoff(pause, pause).build()?;
    let error = error_of(hasty.order(&sale.id, &NewOrder::units(1)).await)?;
    check!(
        error.may_have_happened() && error.kind() == Some("about:blank"),
        error
    );
    check!(
        error.problem().is_some_and(|problem| problem.status == 502),
        error
    );
    Ok(())
}
