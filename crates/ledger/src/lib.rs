//! The ledger on PostgreSQL and on MySQL/MariaDB.
