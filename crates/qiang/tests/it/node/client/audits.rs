//! An audit of a node, by the client.

use std::time::Duration;

use crate::node::client::common::{Service, assert_problem};
use qiang_client::AuditStatus;

#[tokio::test]
async fn an_audit_is_started_and_followed() {
    let service = Service::start().await;
    let operator = service.client();
    let mut audit = operator.start_audit().await.unwrap();
    while audit.status == AuditStatus::Running {
        tokio::time::sleep(Duration::from_millis(20)).await;
        audit = operator.audit(&audit.id).await.unwrap();
    }
    assert_eq!((audit.status, &audit.error), (AuditStatus::Ok, &None));
    let report = audit.report.unwrap();
    assert!(
        report.checks.iter().all(|check| check.ok != Some(false)),
        "{report:?}"
    );
    assert!(report.checks.len() > 5, "{report:?}");
    let ann = service.as_user(&operator, "ann");
    assert_problem(ann.start_audit().await, "forbidden");
    service.stop().await;
}
