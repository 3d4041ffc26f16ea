-- Endpoints of webhooks: what they are told, what that is signed with, and how far they have been told. What a broken
-- migration left is gone over again.
CREATE TABLE IF NOT EXISTS webhooks (
    id              CHAR(36)      NOT NULL PRIMARY KEY,
    url             VARCHAR(2048) NOT NULL,
    secret          VARCHAR(128)  NOT NULL,
    previous_secret VARCHAR(128),
    previous_until  BIGINT,
    types           VARCHAR(512)  NOT NULL,
    campaigns       VARCHAR(4096) NOT NULL,
    owner           VARCHAR(128),
    created_at      BIGINT        NOT NULL,
    place           BIGINT        NOT NULL,
    failing_since   BIGINT,
    attempts        BIGINT        NOT NULL DEFAULT 0,
    retry_at        BIGINT,
    last_error      VARCHAR(512),
    disabled_at     BIGINT,
    holder          CHAR(36),
    held_until      BIGINT
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What they are told: written by settlement, in its own transaction, of campaigns whose events an endpoint may want.
CREATE TABLE IF NOT EXISTS webhook_events (
    place       BIGINT      NOT NULL PRIMARY KEY,
    `partition` BIGINT      NOT NULL,
    seq         BIGINT      NOT NULL,
    kind        VARCHAR(32) NOT NULL,
    at          BIGINT      NOT NULL,
    campaign    BIGINT      NOT NULL,
    number      BIGINT,
    user        VARCHAR(128),
    quantity    BIGINT      NOT NULL,
    amount      BIGINT      NOT NULL,
    payment     VARCHAR(128),
    KEY webhook_events_at (at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- One row: the last place that was given to an event.
CREATE TABLE IF NOT EXISTS webhook_places (
    only_one   BIGINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (only_one = 1),
    last_place BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT IGNORE INTO webhook_places (only_one, last_place) VALUES (1, 0);
