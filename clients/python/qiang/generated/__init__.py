"""Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit."""
