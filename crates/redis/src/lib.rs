//! Engine and event log on Redis 7 / Valkey: standalone, Sentinel and Cluster.
