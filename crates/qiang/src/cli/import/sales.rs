//! Rows of sales.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    str::FromStr as _,
};

use qiang::SystemClock;
use qiang_client::{IdempotencyKey, Money, NewSale, Timestamp};
use qiang_core::{
    campaign::{
        CampaignError, Description, DetailsChange, Gallery, ImageUrl, Sale, check_list_price,
    },
    id::ShopReference,
    metadata::{MetadataChange, MetadataError, MetadataName, MetadataValue},
    money,
    ports::Clock as _,
};

use super::{ImportResult, ImportedRow, record::ImportRecord, refused};
use crate::{
    amounts,
    service::Service,
    table::{self, RowReader, TableColumns, TableError, TableFile},
};

/// Longest id of a row; the key of its request is a prefix and the id.
const ID_CHARS_MAX: usize = 200;
/// Defaults of the service.
const LIMIT: u32 = 1;
const HOLD_SECONDS: u32 = 900;

pub(crate) const COLUMNS: TableColumns = TableColumns {
    required: &["id", "title", "stock", "price", "currency"],
    optional: &[
        "starts_at",
        "ends_at",
        "per_user_limit",
        "hold_seconds",
        "seller",
        "product_id",
        "description",
        "image_url",
        "gallery",
        "list_price",
        "ack",
        "admission_percent",
        "payment_policy",
        "payment_tolerance",
        "waiting_room",
        "requirements",
        "reference",
        "metadata",
    ],
    ignored: &[
        "audience",
        "phase",
        "granted",
        "remaining",
        "returned",
        "withheld",
        "created_at",
        "archived_at",
    ],
};

/// A sale of a file.
pub(crate) struct ImportedSale {
    pub(crate) line: u64,
    pub(crate) id: String,
    pub(crate) sale: NewSale,
}

/// Sales of a file.
///
/// # Errors
/// If any row has an error; they are printed.
pub(crate) fn read(file: &Path, json: bool) -> anyhow::Result<Vec<ImportedSale>> {
    let mut table = table::read(file, &COLUMNS)?;
    let sales = rows(&mut table);
    let now = SystemClock.now();
    for row in &sales {
        let is_over = |ends_at: &Timestamp| ends_at.as_millis() <= now.as_millis();
        if row.sale.ends_at.as_ref().is_some_and(is_over) {
            table.errors.push(TableError::new(
                row.line,
                "ends_at",
                "the window is over already",
            ));
        }
    }
    table.refuse_errors(file, json)?;
    Ok(sales)
}

/// Sales of a table. Adds errors to it.
pub(crate) fn rows(table: &mut TableFile) -> Vec<ImportedSale> {
    let (mut sales, mut ids) = (Vec::new(), HashMap::new());
    let TableFile { rows, errors } = table;
    for row in rows {
        let mut row = RowReader::new(row, &mut *errors);
        let line = row.line();
        if let Some(id) = row.text("id") {
            if let Some(first) = ids.insert(id, line) {
                row.error("id", format!("line {first} has the same id"));
            }
            let is_visible = id.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_visible || id.len() > ID_CHARS_MAX {
                row.error(
                    "id",
                    format!("an id is 1 to {ID_CHARS_MAX} visible ASCII characters"),
                );
            }
        }
        let id = row.text("id").map(str::to_owned);
        if let Some((id, sale)) = id.zip(sale(&mut row)) {
            sales.push(ImportedSale { line, id, sale });
        }
    }
    sales
}

fn sale(row: &mut RowReader<'_, '_>) -> Option<NewSale> {
    let title = row.text("title");
    let stock: Option<u64> = row.parsed("stock");
    let limit: Option<u32> = row.parsed("per_user_limit");
    let hold: Option<u32> = row.parsed("hold_seconds");
    let price = money_of(row, "price");
    let tolerance = match row.text("payment_tolerance") {
        Some(_) => money_of(row, "payment_tolerance"),
        None => None,
    };
    let starts_at: Option<Timestamp> = row.parsed("starts_at");
    let ends_at: Option<Timestamp> = row.parsed("ends_at");
    if starts_at
        .zip(ends_at)
        .is_some_and(|(starts, ends)| starts >= ends)
    {
        row.error("ends_at", "a window must end after it starts");
    }
    if row.text("audience").is_some() {
        let error = "audiences are not imported: without one, all users could claim. Use `qiang sale create`";
        row.error("audience", error);
    }
    let change = DetailsChange {
        title: title.map(str::to_owned),
        ..DetailsChange::default()
    };
    if let Err(error) = change.check() {
        row.error("title", error);
    }
    // The texts themselves are sent; these are their checks.
    let _: Option<Description> = row.parsed("description");
    let _: Option<ImageUrl> = row.parsed("image_url");
    let gallery: Option<Vec<String>> = row.text("gallery").map(|urls| {
        let urls = urls.split_ascii_whitespace();
        urls.map(str::to_owned).collect()
    });
    if let Some(Err(error)) = gallery
        .as_ref()
        .map(|urls| Gallery::from_str(&urls.join("\n")))
    {
        row.error("gallery", error);
    }
    let list_price = match row.text("list_price") {
        Some(_) => money_of(row, "list_price"),
        None => None,
    };
    if let Some((list_price, price)) = list_price.zip(price)
        && let Err(error) = check_list_price(list_price.amount, price.amount)
    {
        row.error("list_price", error);
    }
    let requirements = row.text("requirements").map(|words| {
        let words = words.split([' ', ',']).filter(|word| !word.is_empty());
        words.map(str::parse).collect::<Result<Vec<_>, _>>()
    });
    let requirements = match requirements.transpose() {
        Ok(requirements) => requirements,
        Err(error) => {
            row.error("requirements", error);
            None
        }
    };
    let _: Option<ShopReference> = row.parsed("reference");
    let metadata = metadata_of(row);
    if let Some((stock, price)) = stock.zip(price) {
        let (limit, hold) = (limit.unwrap_or(LIMIT), hold.unwrap_or(HOLD_SECONDS));
        for fault in faults(stock, limit, price, hold) {
            row.error(column_of(fault), fault);
        }
    }
    let sale = NewSale {
        seller: row.parsed("seller"),
        per_user_limit: limit,
        hold_seconds: hold,
        starts_at,
        ends_at,
        ack: row.parsed("ack"),
        admission_percent: row.parsed("admission_percent"),
        payment_policy: row.parsed("payment_policy"),
        payment_tolerance: tolerance,
        waiting_room: row.parsed("waiting_room"),
        requirements,
        product_id: row.parsed("product_id"),
        description: row.text("description").map(str::to_owned),
        image_url: row.text("image_url").map(str::to_owned),
        reference: row.text("reference").map(str::to_owned),
        metadata,
        gallery,
        list_price,
        ..NewSale::new(title?, stock?, price?)
    };
    Some(sale)
}

/// Metadata of a row: a JSON object of texts.
fn metadata_of(row: &mut RowReader<'_, '_>) -> Option<BTreeMap<String, String>> {
    let metadata: BTreeMap<String, String> = match serde_json::from_str(row.text("metadata")?) {
        Ok(metadata) => metadata,
        Err(error) => {
            row.error("metadata", format!("not a JSON object of texts: {error}"));
            return None;
        }
    };
    let checked = metadata.iter().map(|(name, value)| {
        let name: MetadataName = name.parse()?;
        let value: MetadataValue = value.parse()?;
        Ok((name, Some(value)))
    });
    let checked = checked.collect::<Result<BTreeMap<_, _>, MetadataError>>();
    let checked = checked.and_then(|values| {
        let change = MetadataChange {
            reference: None,
            is_unique: None,
            values,
        };
        change.check()
    });
    match checked {
        Ok(()) => Some(metadata),
        Err(error) => {
            row.error("metadata", error);
            None
        }
    }
}

/// Amount of a column, in the row's currency.
fn money_of(row: &mut RowReader<'_, '_>, column: &str) -> Option<Money> {
    let words = [
        row.text(column)?.to_owned(),
        row.text("currency")?.to_owned(),
    ];
    match amounts::money(&words) {
        Ok(money) => Some(money),
        Err(error) => {
            let is_currency = words[1].parse::<money::Currency>().is_err();
            row.error(if is_currency { "currency" } else { column }, error);
            None
        }
    }
}

fn faults(stock: u64, limit: u32, price: Money, hold: u32) -> Vec<CampaignError> {
    // The currency was parsed with the amount.
    let Ok(currency) = price.currency.as_str().parse() else {
        return Vec::new();
    };
    let price = money::Money::new(price.amount, currency);
    Sale::faults(stock, limit, price, i64::from(hold) * 1_000).collect()
}

fn column_of(fault: CampaignError) -> &'static str {
    match fault {
        CampaignError::Limit => "per_user_limit",
        CampaignError::Price => "price",
        CampaignError::Hold => "hold_seconds",
        _ => "stock",
    }
}

/// Creates a sale under the key of its row.
pub(super) async fn create(
    row: ImportedSale,
    record: &ImportRecord,
    service: &Service,
) -> anyhow::Result<ImportedRow> {
    let ImportedSale { line, id, sale } = row;
    if let Some(object) = record.made(&id) {
        return Ok(ImportedRow {
            line,
            object: Some(object.to_owned()),
            id,
            result: ImportResult::Present,
            errors: Vec::new(),
        });
    }
    let key: IdempotencyKey = format!("import-{id}").parse()?;
    let created = service
        .client
        .with_key(key)
        .create_sale_replayable(&sale)
        .await;
    match created {
        Ok(created) => {
            let object = created.value.id.to_string();
            record.add(&id, &object)?;
            Ok(ImportedRow {
                line,
                id,
                result: ImportResult::from_replay(created.is_replay),
                object: Some(object),
                errors: Vec::new(),
            })
        }
        Err(error) => refused(line, id, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The desk imports the same files in the browser.
    #[test]
    fn columns_are_those_of_the_desk() {
        let script = include_str!("../../../../web/assets/desk-import.js");
        let list = |name: &str| {
            let (_, rest) = script.split_once(&format!("const {name} = [")).unwrap();
            let (list, _) = rest.split_once(']').unwrap();
            let names = list.split(',').map(|it| it.trim().trim_matches('"'));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(list("REQUIRED"), COLUMNS.required);
        assert_eq!(list("OPTIONAL"), COLUMNS.optional);
        assert_eq!(list("IGNORED"), COLUMNS.ignored);
    }
}
