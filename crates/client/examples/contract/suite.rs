//! Clients of fresh users, requests to the proxy, and results of calls, for all cases.

use std::{
    env,
    error::Error as StdError,
    io::{Read as _, Write as _},
    net::TcpStream,
    pin::pin,
    time::Duration,
};

use futures_util::{Stream, StreamExt as _};
use qiang_client::*;

/// Result of a case.
pub(crate) type CaseResult = Result<(), Box<dyn StdError>>;

pub(crate) const SELLER_SCOPES: &str = "campaigns:write pay deposit send read:any admin";
pub(crate) const PRICE: i64 = 49_900;

/// Fails a case with what it saw.
#[macro_export]
macro_rules! check {
    ($holds:expr, $about:expr) => {
        if !$holds {
            return Err(format!("{}: {:?}", stringify!($holds), $about).into());
        }
    };
}

pub(crate) fn price() -> Result<Money, InvalidValue> {
    Ok(Money::new(PRICE, "CNY".parse()?))
}

pub(crate) async fn sale_of(shop: &Client) -> Result<Sale, Box<dyn StdError>> {
    let mut sale = NewSale::new("lamps", 10, price()?);
    sale.per_user_limit = Some(5);
    Ok(shop.create_sale(&sale).await?)
}

pub(crate) async fn granted_units(client: &Client, sale: &Sale) -> Result<u64, Error> {
    Ok(client.state(&sale.id).await?.state.granted)
}

pub(crate) fn fresh(name: &str) -> String {
    format!("{name}-{}", IdempotencyKey::random().as_str())
}

pub(crate) fn seller() -> Result<Client, Box<dyn StdError>> {
    Ok(client(&fresh("seller"), SELLER_SCOPES, "")?.build()?)
}

pub(crate) fn buyer(fault: &str) -> Result<Builder, Box<dyn StdError>> {
    client(&fresh("buyer"), "claim", fault)
}

pub(crate) fn client(user: &str, scope: &str, fault: &str) -> Result<Builder, Box<dyn StdError>> {
    let scope = scope.replace(' ', "+").replace(':', "%3A");
    let token = ask(&format!("/_token?user={user}&scope={scope}"))?;
    let url = match fault {
        "" => env::var("QIANG_URL")?,
        fault => format!("{}/{fault}", env::var("QIANG_PROXY")?),
    };
    Ok(Client::builder(&url).token(token))
}

/// Times of the proxy's requests with a key, in seconds after the first.
pub(crate) fn requests_with(key: &IdempotencyKey) -> Result<Vec<f64>, Box<dyn StdError>> {
    let times = ask(&format!("/_seen?key={}", key.as_str()))?;
    Ok(serde_json::from_str(&times)?)
}

/// Body of the proxy's answer to a request of the suite.
pub(crate) fn ask(target: &str) -> Result<String, Box<dyn StdError>> {
    let proxy = env::var("QIANG_PROXY")?;
    let host = proxy.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .ok_or("no answer of the proxy")?;
    Ok(body.to_owned())
}

pub(crate) fn granted<T: std::fmt::Debug>(claim: ClaimResult<T>) -> Result<T, Box<dyn StdError>> {
    match claim {
        ClaimResult::Granted(grant) => Ok(grant),
        ClaimResult::Waiting(place) => Err(format!("{place:?}").into()),
    }
}

pub(crate) fn error_of<T: std::fmt::Debug>(
    result: Result<T, Error>,
) -> Result<Error, Box<dyn StdError>> {
    match result {
        Ok(value) => Err(format!("no error: {value:?}").into()),
        Err(error) => Ok(error),
    }
}

pub(crate) fn refusal<T: std::fmt::Debug>(
    result: Result<T, Error>,
) -> Result<Problem, Box<dyn StdError>> {
    match error_of(result)? {
        Error::Problem(problem) => Ok(*problem),
        error => Err(format!("no refusal: {error:?}").into()),
    }
}

pub(crate) async fn all<T>(items: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    let mut items = pin!(items);
    let mut all = Vec::new();
    while let Some(item) = items.next().await {
        all.push(item?);
    }
    Ok(all)
}

pub(crate) async fn wait_until(holds: impl AsyncFn() -> Result<bool, Error>) -> CaseResult {
    for _ in 0..200 {
        if holds().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("it took too long".into())
}
