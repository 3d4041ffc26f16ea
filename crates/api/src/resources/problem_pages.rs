//! Pages that the `type` of a problem links to: each explains one type and its remedy.

use axum::{
    http::header,
    response::{Html, IntoResponse as _, Response},
};
use qiang_wire::problem::{Problem, ProblemKind};

use crate::{
    extract::Param,
    http::{
        compression::Compressible,
        problem::{ApiProblem, KindStatus as _},
    },
};

/// The pages change only with releases.
const CACHING: (header::HeaderName, &str) = (header::CACHE_CONTROL, "public, max-age=3600");

/// All types of problems.
#[utoipa::path(get, path = "/problems", tag = "problems", security(()),
    operation_id = "listProblems",
    responses((status = 200, description = "A page with all types", body = String, content_type = "text/html")))]
pub(crate) async fn list() -> Response {
    let rows = ProblemKind::ALL.iter().map(|kind| {
        let (path, slug, title) = (kind.path(), kind.slug(), kind.title());
        let status = kind.status();
        format!("<li><a href=\"{path}\">{slug}</a> ({status}): {title}</li>\n")
    });
    let rows: String = rows.collect();
    page("Problems", &format!("<ul>\n{rows}</ul>\n"))
}

/// Meaning and remedy of a problem type: the page that `type` links to.
#[utoipa::path(get, path = "/problems/{slug}", tag = "problems", security(()),
    operation_id = "explainProblem",
    params(("slug" = String, Path, description = "The last part of the type")),
    responses((status = 200, description = "A page for people", body = String, content_type = "text/html"),
        (status = 404, body = Problem)))]
pub(crate) async fn one(Param(slug): Param<String>) -> Result<Response, ApiProblem> {
    let mut kinds = ProblemKind::ALL.iter();
    let kind = kinds.find(|kind| kind.slug() == slug);
    let kind = kind.ok_or(ProblemKind::NotFound)?;
    let (status, advice) = (kind.status_code(), advice(*kind));
    let body = format!(
        "<p>Status {status}. Type <code>{}</code>.</p>\n<p>{advice}</p>\n\
         <p><a href=\"/problems\">All problems</a></p>\n",
        kind.path()
    );
    Ok(page(kind.title(), &body))
}

/// Escapes nothing: all texts are constants of this program.
fn page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <h1>{title}</h1>\n{body}</html>\n"
    );
    let mut response = ([CACHING], Html(html)).into_response();
    response.extensions_mut().insert(Compressible::Fresh);
    response
}

/// Meaning of a problem, and the remedy for its receiver.
fn advice(kind: ProblemKind) -> &'static str {
    use ProblemKind as Kind;
    match kind {
        Kind::BadRequest => {
            "The path, the query, a header or the JSON is malformed. A repetition does not help; <code>detail</code> \
             says what is wrong."
        }
        Kind::Unauthenticated => {
            "Send <code>Authorization: Bearer</code> and a token that is signed with one of the installation's \
             keys, has not expired and is not revoked; <code>detail</code> says what is wrong."
        }
        Kind::Forbidden => {
            "The token lacks the scope in <code>WWW-Authenticate</code>, or the object is another user's. Get a token \
             with that scope."
        }
        Kind::CrossSite => {
            "A browser session works from pages of the service's own origin only. Pages of other sites send a token. A \
             proxy in front of the service must keep <code>Host</code> and <code>Origin</code> unchanged."
        }
        Kind::NotFound => {
            "The path or the object does not exist, or the caller may not see it. Check the id."
        }
        Kind::MethodNotAllowed => "Use a method that the header <code>Allow</code> names.",
        Kind::BodyTimeout => "The body came too slowly. Send the request again; nothing was done.",
        Kind::PreconditionFailed => {
            "The object no longer has the entity tag in <code>If-Match</code>: another change was made in between. \
             Read the object, and decide again. Nothing was changed."
        }
        Kind::WeakEntityTag => {
            "A tag in <code>If-Match</code> must be strong: it does not begin with <code>W/</code>. Read the object \
             with a token that may change it, and send its <code>ETag</code> unchanged. A proxy that compresses \
             answers may weaken tags. Nothing was changed."
        }
        Kind::TooLarge => "Send a smaller body; <code>detail</code> says how large it may be.",
        Kind::UriTooLong => "Send a shorter path and query.",
        Kind::HeadTooLarge => "Send fewer and shorter headers; the connection is closed.",
        Kind::MediaType => {
            "Send JSON in UTF-8 with <code>Content-Type: application/json</code>, without compression."
        }
        Kind::Invalid => {
            "The request is well formed, but a value is impossible. <code>errors</code> names the fields and their \
             limits. Change them; a repetition does not help."
        }
        Kind::AckUnavailable => {
            "The installation does not offer this acknowledgement level. Choose one of <code>offered</code>, or \
             none."
        }
        Kind::KeyReused => {
            "An idempotency key identifies one request. Use a fresh key for another request, and the same key only to \
             repeat the same one."
        }
        Kind::KeyPending => {
            "An earlier request with this idempotency key broke off before its answer was stored. It is a command on \
             a partition, or 100 other moves of the test clock followed. Or the value was changed since, and Redis \
             lost entries or the ledger has entries of the campaign in quarantine. The request is not repeated, \
             because it could undo that change, or end a later halt. Read the object. If your change is missing, \
             send it with a fresh key."
        }
        Kind::Superseded => {
            "An earlier request with this idempotency key broke off before it was carried out, or in the middle. A \
             later request may have set the same values to others, so this one is not repeated: it would undo that \
             change. Each retry with this key gets this answer. Read the object. If you still want your \
             change, send it with a \
             fresh key."
        }
        Kind::UserMismatch => {
            "The report names a user, but the order is another user's. The order id may come from a service that was \
             lost. Look the payment up at the payment service. Nothing was recorded."
        }
        Kind::SellerMismatch => {
            "The account at the payment service may report payments of some sellers, and the order is another \
             seller's. Add the seller to the account in the accounts file, or return the money at the payment \
             service. Nothing was recorded."
        }
        Kind::PaymentUsed => {
            "A payment pays one order. Its reference was reported for another order before. Look the payment up at the \
             payment service. Nothing was recorded."
        }
        Kind::RefundExceedsDue => {
            "A refund cannot exceed what is still due for the order, in its currency. See <code>GET \
             /v1/orders/{id}/refunds</code>. Nothing was posted."
        }
        Kind::CancellationExceedsOrder => {
            "A cancellation is of at most the units that the held order has: see <code>quantity</code> of <code>GET \
             /v1/orders/{id}</code>. Nothing was cancelled."
        }
        Kind::ReturnExceedsOrder => {
            "The returns of an order are at most its units: see <code>quantity</code> and \
             <code>returned_quantity</code> of <code>GET /v1/orders/{id}</code>. Nothing was returned."
        }
        Kind::HoldExtended => {
            "The hold of an order is extended once. See <code>hold_until</code> of <code>GET /v1/orders/{id}</code>. \
             The same extension again is answered. Nothing was changed."
        }
        Kind::HoldOver => {
            "The hold has ended, and the order expires. A payment still pays it if units are left. Nothing was changed."
        }
        Kind::TooManyExtensions => {
            "At most 1,000 held orders of a sale have an extended hold at the same time, and of a spread sale as many \
             in each shard. One that is paid, cancelled or expired makes room. Nothing was changed."
        }
        Kind::TooManyReturns => {
            "An order is cancelled and returned in at most 1,000 parts. Cancel or return what is left without a \
             <code>quantity</code>. Nothing was changed."
        }
        Kind::ReversalExceedsDeposit => {
            "The reversals of a deposit are at most the deposit, in its currency: see <code>GET \
             /v1/accounts/{user}/deposits/{id}</code>. Nothing was posted."
        }
        Kind::ReferenceUsed => {
            "A reference identifies one payout. It was posted before for another order, user or amount. Look the \
             payment up at the payment service. Nothing was posted."
        }
        Kind::InsufficientFunds => {
            "Put money into the account first, or ask for less. Nothing was moved."
        }
        Kind::IdUsed => {
            "A campaign's id can be used once. You may have used it for another request, or more than a day ago: see \
             <code>GET /v1/campaigns/{id}/state</code>. Otherwise make a fresh UUID of version 7. Nothing was \
             created."
        }
        Kind::ReferenceTaken => {
            "Another campaign of the owner, or another order of the seller, has this reference, and it is unique for \
             both: see <code>existing_id</code>. Read that one, or choose another reference. Nothing was changed."
        }
        Kind::PhaseConflict => {
            "A campaign that is over cannot be paused, resumed or changed. Read its state first."
        }
        Kind::OrderConflict => {
            "A paid order can be returned but not cancelled, and only a paid order can be returned. Read the order \
             first."
        }
        Kind::UnknownCampaign => {
            "No campaign has this id, or it is of the other kind: claims of red packets and orders of sales have \
             their own paths."
        }
        Kind::Paused => {
            "An operator paused the campaign. Retry after <code>Retry-After</code> seconds."
        }
        Kind::NotStarted => {
            "Retry at <code>starts_at</code>, which is in <code>Retry-After</code> seconds."
        }
        Kind::Ended => {
            "The campaign is over and grants nothing. A user with a grant still gets it."
        }
        Kind::LimitReached => {
            "A user may have <code>limit</code>, and this user has <code>held</code>. Claim at most the difference. To \
             get an earlier order again, repeat its request with its idempotency key."
        }
        Kind::SoldOut => {
            "Fewer units are left than were claimed: <code>remaining</code>. In a sale, more may return when orders \
             expire or are cancelled."
        }
        Kind::Throttled => {
            "This user sends too many requests. Nothing was done. Wait <code>Retry-After</code> seconds, then send \
             requests more slowly. <code>RateLimit-Policy</code> has the limit: <code>q</code> at once, and as many \
             again in <code>w</code> seconds."
        }
        Kind::AddressThrottled => {
            "Too many requests come from this address, which several users may share. Nothing was done. Wait \
             <code>Retry-After</code> seconds. Operators: behind a proxy, set <code>server.trusted_proxies</code>; add \
             a backend of the installation to <code>limits.unlimited_addresses</code>."
        }
        Kind::CreationsThrottled => {
            "This user created too many campaigns in a short time, or red packets with too many shares together; \
             <code>violated-policies</code> names the limit. Nothing was created, and the idempotency key stays \
             unused. Send it again after <code>Retry-After</code> seconds, or send a red packet with at most as many \
             shares as <code>RateLimit</code> has as <code>r</code>."
        }
        Kind::TooManyConnections => {
            "This address has reached its limit of open connections. Send several requests over one connection, close \
             idle ones, and retry after <code>Retry-After</code> seconds. Operators: add a proxy in front to \
             <code>server.trusted_proxies</code>."
        }
        Kind::TooManyStreams => {
            "This connection, user or address has reached its limit of live streams; <code>violated-policies</code> \
             names it. Close unneeded streams, or read the state at intervals instead of a stream. Operators: see \
             <code>limits.streams_per_address_max</code>."
        }
        Kind::QueueFull => "The queue is full. Nothing was decided: retry.",
        Kind::AlreadyWaiting => {
            "A user waits in a queue with one order at a time. Repeat that order with its own idempotency key and \
             quantity to read its queue entry. Send another order after it is decided."
        }
        Kind::NoQueueEntry => {
            "The caller has no entry in this queue, or the entry was decided too long ago. Claim again to join at the \
             end."
        }
        Kind::Overloaded => {
            "More requests wait than can be answered in time. Nothing was decided: retry after \
             <code>Retry-After</code> seconds, more slowly each time."
        }
        Kind::Unavailable => {
            "The engine or the ledger cannot be reached. Nothing was decided: retry. Operators: see \
             <code>/readyz</code> and the log."
        }
        Kind::Uncertain => {
            "The request may have had its effect. Repeat it with the same idempotency key; it has its effect once."
        }
        Kind::LedgerIncomplete => {
            "The ledger was restored to an earlier moment, or is another one. Grants stay granted: retry later. \
             Operators: run <code>qiang reconcile</code>."
        }
        Kind::OrderChanged => {
            "Units of the order were cancelled while its payment was compared with the price. Nothing was recorded: \
             report the payment again."
        }
        Kind::Stopping => "This node stops. Retry: another node answers.",
        Kind::NotAdmitted => {
            "Pending claims already cover the remaining stock. Nothing was decided, and the sale is not sold out: \
             retry."
        }
        Kind::StockGranted => "A sale's stock cannot be less than the units that users have.",
        Kind::Internal => {
            "This is a fault of the service. Operators find the cause in the log by <code>request_id</code>."
        }
        Kind::TicketMissing => {
            "Get a ticket from <code>POST …/tickets</code> after the campaign has started, and send it as \
             <code>Grab-Ticket</code>."
        }
        Kind::TicketInvalid => {
            "The ticket was changed, or is of another installation. Get one here."
        }
        Kind::TicketExpired => "A ticket is valid for a short time. Get another one.",
        Kind::TicketOfAnotherUser => "A ticket is valid for one user. Get one with your own token.",
        Kind::TicketOfAnotherCampaign => "Get a ticket for this campaign.",
        Kind::TicketNotNeeded => "Claim without a ticket.",
        Kind::ChallengeFailed => {
            "The solution is wrong or late. Get another challenge, and solve it in time."
        }
        Kind::OrderCheckRefused => {
            "The shop refused the order. <code>detail</code> has its reason."
        }
        Kind::OrderCheckUnavailable => {
            "The shop did not answer in time. Nothing was decided: retry."
        }
        Kind::NotInAudience => {
            "The campaign is for users that its owner has named, and the caller is not one of them."
        }
        Kind::InvitationInvalid => {
            "Send <code>invitation</code> unchanged, before it expires. It is valid for one campaign."
        }
        Kind::PassphraseWrong => {
            "Send the campaign's <code>passphrase</code>. The number of guesses is limited."
        }
        Kind::PassphrasesThrottled => {
            "All users together tried too many wrong passphrases of this campaign. Nothing was checked. Send the \
             passphrase again after <code>Retry-After</code> seconds. Once one user has sent the right one to a node, \
             that node accepts it at once."
        }
        Kind::DrawsHidden => "The sender shows the draws only to users with a share, or to none.",
        Kind::NotByInvitation => {
            "Invitations can only be signed for campaigns that were created with <code>audience.invitation</code>."
        }
        Kind::NotForEngine => {
            "This operation needs an engine on Redis, whose partitions may lose entries and are repaired. An embedded \
             engine refuses to start instead. Nothing was done."
        }
        Kind::DevelopmentOnly => {
            "Only <code>qiang serve --dev</code> on the embedded engine has a clock that moves on request. Nothing was \
             done."
        }
        Kind::NotQuarantined => {
            "The entry is settled, or its partition has no entry at this position. <code>GET /v1/quarantine</code> \
             lists quarantined entries."
        }
        Kind::StillRefused => {
            "The ledger refused the entry again, or it waits for another one; <code>detail</code> has the reason. It \
             stays in quarantine. Remove the cause, then redrive it."
        }
        Kind::ReturnPeriodOver => {
            "The return period for buyers is over. The seller can still return the order at any time."
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_page_of_problems_names_each() {
        let path = "docs/reference/problems.md";
        let from_here = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(from_here).unwrap();
        for kind in ProblemKind::ALL {
            let row = format!("| `{}` | {} | ", kind.slug(), kind.status());
            assert!(page.contains(&row), "{path} lacks the row {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), ProblemKind::ALL.len(), "{path}");
    }
}
