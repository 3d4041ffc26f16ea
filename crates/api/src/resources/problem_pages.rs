//! What the types of problems lead to: a page for each, which explains it and says what to do.

use axum::{
    http::header,
    response::{Html, IntoResponse as _, Response},
};

use crate::{
    extract::Param,
    http::problem::{Problem, ProblemBody, ProblemKind},
};

/// Pages change with releases alone.
const CACHING: (header::HeaderName, &str) = (header::CACHE_CONTROL, "public, max-age=3600");

/// All types of problems.
#[utoipa::path(get, path = "/problems", tag = "problems", security(()),
    operation_id = "listProblems",
    responses((status = 200, description = "A page that names each", body = String, content_type = "text/html")))]
pub(crate) async fn list() -> Response {
    let rows = ProblemKind::ALL.iter().map(|kind| {
        let (path, slug, title) = (kind.path(), kind.slug(), kind.title());
        let status = kind.status().as_u16();
        format!("<li><a href=\"{path}\">{slug}</a> ({status}): {title}</li>\n")
    });
    let rows: String = rows.collect();
    page("Problems", &format!("<ul>\n{rows}</ul>\n"))
}

/// What a type of problems means, and what to do: where `type` leads.
#[utoipa::path(get, path = "/problems/{slug}", tag = "problems", security(()),
    operation_id = "explainProblem",
    params(("slug" = String, Path, description = "The last part of the type")),
    responses((status = 200, description = "A page for people", body = String, content_type = "text/html"),
        (status = 404, body = ProblemBody)))]
pub(crate) async fn one(Param(slug): Param<String>) -> Result<Response, Problem> {
    let mut kinds = ProblemKind::ALL.iter();
    let kind = kinds.find(|kind| kind.slug() == slug);
    let kind = kind.ok_or(ProblemKind::NotFound)?;
    let (status, advice) = (kind.status(), advice(*kind));
    let body = format!(
        "<p>Status {status}. Type <code>{}</code>.</p>\n<p>{advice}</p>\n\
         <p><a href=\"/problems\">All problems</a></p>\n",
        kind.path()
    );
    Ok(page(kind.title(), &body))
}

/// All texts are ours: there is nothing to escape.
fn page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <h1>{title}</h1>\n{body}</html>\n"
    );
    ([CACHING], Html(html)).into_response()
}

/// What it means, and what whoever is answered it can do.
fn advice(kind: ProblemKind) -> &'static str {
    use ProblemKind as Kind;
    match kind {
        Kind::BadRequest => {
            "The path, the query, a header or the JSON has not the form that the document describes. Repeating it \
             does not help; <code>detail</code> says what is wrong."
        }
        Kind::Unauthenticated => {
            "Send <code>Authorization: Bearer</code> and a token that is signed with one of the installation's \
             keys, has not expired and is not revoked; <code>detail</code> says what is wrong."
        }
        Kind::Forbidden => {
            "The token has not the scope that <code>WWW-Authenticate</code> names, or the thing belongs to \
             somebody else. Ask for a token with that scope."
        }
        Kind::CrossSite => {
            "A browser's session is taken from pages of the service's own origin alone. Pages of other sites send a \
             token; a proxy before the service must leave <code>Host</code> and <code>Origin</code> as they are."
        }
        Kind::NotFound => {
            "The path or the thing is not there, or is not the caller's to see. Check the id."
        }
        Kind::MethodNotAllowed => "Use a method that the header <code>Allow</code> names.",
        Kind::BodyTimeout => "The body came too slowly. Send the request again; nothing was done.",
        Kind::TooLarge => "Send a smaller body; <code>detail</code> says how large it may be.",
        Kind::UriTooLong => "Send a shorter path and query.",
        Kind::HeadTooLarge => "Send fewer and shorter headers; the connection is closed.",
        Kind::MediaType => {
            "Send JSON in UTF-8 with <code>Content-Type: application/json</code>, without compression."
        }
        Kind::Invalid => {
            "The request is well formed and asks for something impossible. <code>errors</code> names the fields \
             and says their limits. Change them; repeating it does not help."
        }
        Kind::AckUnavailable => {
            "The installation does not offer this acknowledgement level. Choose one of <code>offered</code>, or \
             none."
        }
        Kind::KeyReused => {
            "An idempotency key stands for one request. Use a fresh key for another request, and the same key \
             only to repeat the same one."
        }
        Kind::KeyPending => {
            "An earlier request with this idempotency key broke off before its answer was kept, and the same was \
             changed to something else about that time. The request is not repeated, because it could undo that \
             change. Read the campaign. If the change is not there, send it with a fresh key."
        }
        Kind::UserMismatch => {
            "The report names a user, and the order is another's. An order id may be of a service that was lost: look \
             the payment up at the payment service. Nothing was recorded."
        }
        Kind::PaymentUsed => {
            "A payment pays one order. Its reference was reported for another one before: look the payment up at the \
             payment service. Nothing was recorded."
        }
        Kind::NotOwed => {
            "A refund is at most what is still owed for the order, in its currency: see <code>GET \
             /v1/orders/{id}/refunds</code>. Nothing was posted."
        }
        Kind::PartialCancellation => {
            "A payment of the old price may be in flight, so a held order does not shrink. Cancel it and order \
             fewer units, or pay it and return some: <code>POST /v1/orders/{id}/return</code>. Nothing was cancelled."
        }
        Kind::ReturnExceedsOrder => {
            "The returns of an order are at most its units: see <code>quantity</code> and \
             <code>returned_quantity</code> of <code>GET /v1/orders/{id}</code>. Nothing was returned."
        }
        Kind::ReversalExceedsDeposit => {
            "The reversals of a deposit are at most the deposit, in its currency: see <code>GET \
             /v1/accounts/{user}/deposits/{id}</code>. Nothing was posted."
        }
        Kind::ReferenceUsed => {
            "A reference stands for one payment out. It was posted before for another order, user or amount: look the \
             payment up at the payment service. Nothing was posted."
        }
        Kind::InsufficientFunds => {
            "Put money into the account first, or ask for less. Nothing was moved."
        }
        Kind::IdUsed => {
            "Ids of campaigns are used once. Was it you, with another request or more than a day ago? See <code>GET \
             /v1/campaigns/{id}/state</code>. Otherwise make a fresh UUID of version 7. Nothing was created."
        }
        Kind::PhaseConflict => {
            "A campaign that is over cannot be paused, resumed or changed. Look at its state first."
        }
        Kind::OrderConflict => {
            "A paid order is returned and not cancelled, and only a paid one is returned. Look at the order \
             first."
        }
        Kind::UnknownCampaign => {
            "No campaign has this id, or it is of the other kind: claims of red packets and orders of sales have \
             their own paths."
        }
        Kind::Paused => {
            "An operator has paused the campaign. Come again after <code>Retry-After</code> seconds."
        }
        Kind::NotStarted => {
            "Come again at <code>starts_at</code>, which is in <code>Retry-After</code> seconds."
        }
        Kind::Ended => {
            "The campaign is over. Nothing is granted any more; who has a grant still gets it again."
        }
        Kind::LimitReached => {
            "A user may have <code>limit</code>, and this one has <code>held</code>. Ask for no more than the \
             difference. To hear of an order again, repeat its request with its idempotency key."
        }
        Kind::SoldOut => {
            "Fewer are left than were asked for: <code>remaining</code>. In a sale some may come back when orders \
             expire or are cancelled."
        }
        Kind::Throttled => {
            "This user asks too often. Nothing was done. Wait for <code>Retry-After</code> seconds, then go on more \
             slowly. <code>RateLimit-Policy</code> says how much is allowed: <code>q</code> at once, and as many again \
             in <code>w</code> seconds."
        }
        Kind::AddressThrottled => {
            "Too many requests come from this address, maybe of several users behind it. Nothing was done. Wait for \
             <code>Retry-After</code> seconds. Operators: behind a proxy set <code>server.trusted_proxies</code>; a \
             backend of the installation's own belongs in <code>limits.unlimited_addresses</code>."
        }
        Kind::CreationsThrottled => {
            "This user has made too many campaigns in a short time, or packets of too many shares together; \
             <code>violated-policies</code> says which. Nothing was made, and the idempotency key is not spent. Send \
             it again after <code>Retry-After</code> seconds, or send a packet of at most as many shares as \
             <code>RateLimit</code> has as <code>r</code>."
        }
        Kind::TooManyConnections => {
            "This address has as many connections open as it may have. Use those that are open for several requests, \
             close those that are idle, and come again after <code>Retry-After</code> seconds. Operators: a proxy in \
             front belongs in <code>server.trusted_proxies</code>."
        }
        Kind::TooManyStreams => {
            "This connection, user or address has as many live streams open as it may have; \
             <code>violated-policies</code> says which. Close streams that are not needed, or read the state now and \
             then in place of a stream. Operators: see <code>limits.streams_per_address_max</code>."
        }
        Kind::LineFull => "The line is as long as it may be. Nothing was decided; come again.",
        Kind::AlreadyWaiting => {
            "A user waits in a line with one order at a time. Repeat that order with its own idempotency key and \
             quantity to see its place. Send another one when it is decided."
        }
        Kind::NoPlace => {
            "The caller has no place in this line, or it was decided too long ago. Claim again to take a place at \
             the end."
        }
        Kind::Overloaded => {
            "More requests wait than can be answered in time. Nothing was decided; come again after <code>Retry- \
             After</code> seconds, more slowly each time."
        }
        Kind::Unavailable => {
            "What is needed for a decision cannot be reached. Nothing was decided; come again. Operators: see \
             <code>/readyz</code> and the log."
        }
        Kind::Uncertain => {
            "The request may have had its effect. Repeat it with the same idempotency key: it has its effect \
             once."
        }
        Kind::LedgerIncomplete => {
            "The ledger was restored to an earlier moment, or is another one. What was granted stays granted; \
             repeat the request later. Operators: run <code>qiang reconcile</code>."
        }
        Kind::Stopping => "This node goes down. Send the request again; another node answers it.",
        Kind::NotAdmitted => {
            "More users ask than are admitted for the units that are left. Nothing was decided, and it is not \
             sold out: come again."
        }
        Kind::StockGranted => "A sale's stock cannot be less than users have of it already.",
        Kind::Internal => {
            "This is a fault of the service. Operators find the cause in the log by <code>request_id</code>."
        }
        Kind::TicketMissing => {
            "Get a ticket with <code>POST …/tickets</code> once the campaign has started, and send it as \
             <code>Grab-Ticket</code>."
        }
        Kind::TicketInvalid => {
            "The ticket was changed, or made by another installation. Get one here."
        }
        Kind::TicketExpired => "Tickets last a short time. Get another one.",
        Kind::TicketOfAnotherUser => "Tickets cannot be handed on. Get one with your own token.",
        Kind::TicketOfAnotherCampaign => "Get a ticket of this campaign.",
        Kind::TicketNotNeeded => "Claim without a ticket.",
        Kind::ChallengeFailed => {
            "The solution is wrong or too late. Ask for another challenge, and solve it in time."
        }
        Kind::OrderCheckRefused => {
            "The shop was asked, and refused the order. <code>detail</code> has its reason."
        }
        Kind::OrderCheckUnavailable => {
            "The shop did not answer in time. Nothing was decided; come again."
        }
        Kind::NotNamed => {
            "The campaign is for users that its owner has named, and the caller is none of them."
        }
        Kind::InvitationInvalid => {
            "Send <code>invitation</code> as it was given, before it expires. It is for one campaign."
        }
        Kind::PassphraseWrong => {
            "Send the campaign's <code>passphrase</code>. Guesses are limited."
        }
        Kind::PassphrasesThrottled => {
            "Too many wrong passphrases of this campaign were tried, by all users together. Nothing was judged. Send \
             the passphrase again after <code>Retry-After</code> seconds. Once one user has said it rightly on a node, \
             the right one is taken at once."
        }
        Kind::DrawsHidden => "The sender shows the draws to those who have a share, or to nobody.",
        Kind::NotByInvitation => {
            "Invitations can only be signed for campaigns that were created with \
             <code>audience.invitation</code>."
        }
        Kind::NotForEngine => {
            "What was asked for is for an engine on Redis, whose partitions may lose entries and are repaired; an \
             embedded engine refuses to start instead. Nothing was done."
        }
        Kind::NotQuarantined => {
            "The entry is settled, or its partition has none of that place. <code>GET /v1/quarantine</code> lists \
             those that wait."
        }
        Kind::StillRefused => {
            "The ledger refused the entry again, or it waits for another one; <code>detail</code> says why. It stays \
             in quarantine. Correct the cause, and redrive it."
        }
        Kind::ReturnPeriodOver => {
            "The buyer is too late. The seller can still take the order back."
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
            let row = format!("| `{}` | {} | ", kind.slug(), kind.status().as_u16());
            assert!(page.contains(&row), "{path} lacks the row {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), ProblemKind::ALL.len(), "{path}");
    }
}
