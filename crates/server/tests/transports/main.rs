//! The suite that all transports pass: the log is Redis', and the ledger an SQLite file.

mod on_rabbit;
mod on_redis;
mod rabbit_only;
mod redis_only;

mod stream {
    use qiang_testkit::transport_conformance;

    transport_conformance!(crate::on_redis::Stream);
}

mod list {
    use qiang_testkit::transport_conformance;

    transport_conformance!(crate::on_redis::List);
}

mod rabbitmq {
    use qiang_testkit::transport_conformance;

    transport_conformance!(crate::on_rabbit::OnRabbit);
}
