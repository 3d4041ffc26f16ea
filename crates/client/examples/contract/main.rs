//! The cases of clients/contract/cases.json with the client in Rust. `cargo xtask clients` runs it.

mod cases;
mod faults;
mod suite;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    macro_rules! run {
        ($($name:literal $case:path,)*) => { $(
            match $case().await {
                Ok(()) => println!("case {}: passed", $name),
                Err(error) => {
                    println!("case {}: FAILED\n{error}", $name);
                    code = ExitCode::FAILURE;
                }
            }
        )* };
    }
    run! {
        "claim" cases::claim,
        "share" cases::share,
        "replay" cases::replay,
        "sold-out" cases::sold_out,
        "throttled" faults::throttled,
        "rate-limit" faults::rate_limit,
        "lost-answer" faults::lost_answer,
        "lost-request" faults::lost_request,
        "late-answer" faults::late_answer,
        "gave-up" faults::gave_up,
        "no-service" faults::no_service,
        "gateway" faults::gateway,
        "paging" cases::paging,
        "events" cases::events,
        "webhook-signature" cases::webhook_signature,
        "payment" cases::payment,
        "cancel" cases::cancel,
        "errors" cases::errors,
        "new-words" cases::new_words,
        "ticket" cases::ticket,
        "queue" cases::queue,
        "change" cases::change,
    }
    code
}
