-- The first schema. docs/format.md says of every table and column what it holds, who writes it and how it ends.

CREATE TABLE migration (
    version INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    sha256  TEXT NOT NULL
) STRICT;

CREATE TABLE session (
    sid     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    owner   TEXT,
    until   INTEGER,
    epoch   INTEGER NOT NULL,
    head    INTEGER NOT NULL,
    minted  INTEGER NOT NULL,
    used    INTEGER NOT NULL,
    due     INTEGER,
    created INTEGER NOT NULL,
    tenant  TEXT NOT NULL DEFAULT 'local',
    actor   TEXT NOT NULL DEFAULT 'local',
    request TEXT,
    parent  TEXT,
    title   TEXT,
    labels  TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX session_request ON session (tenant, request) WHERE request IS NOT NULL;

CREATE TABLE epoch (
    sid   INTEGER NOT NULL REFERENCES session,
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL,
    head  INTEGER NOT NULL,
    time  INTEGER NOT NULL,
    PRIMARY KEY (sid, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation (
    sid  INTEGER NOT NULL REFERENCES session,
    id   INTEGER NOT NULL,
    body TEXT NOT NULL,
    crc  INTEGER NOT NULL,
    PRIMARY KEY (sid, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE entry (
    rid          INTEGER PRIMARY KEY,
    sid          INTEGER NOT NULL REFERENCES session,
    conversation INTEGER NOT NULL,
    id           INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    task         INTEGER,
    head         INTEGER,
    kind         TEXT NOT NULL,
    crc          INTEGER NOT NULL,
    body         TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_id ON entry (sid, conversation, id);
CREATE INDEX entry_head ON entry (sid, conversation, id) WHERE head IS NOT NULL;
CREATE INDEX entry_turn ON entry (sid, conversation, id) WHERE kind = 'et.turn';

CREATE TABLE task (
    sid   INTEGER NOT NULL REFERENCES session,
    id    INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    owner INTEGER,
    live  INTEGER NOT NULL,
    crc   INTEGER NOT NULL,
    body  TEXT NOT NULL,
    PRIMARY KEY (sid, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_live ON task (sid, id) WHERE live = 1;
CREATE INDEX task_owner ON task (sid, owner, id) WHERE owner IS NOT NULL;

CREATE TABLE submission (
    sid          INTEGER NOT NULL REFERENCES session,
    id           INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    request      TEXT,
    live         INTEGER NOT NULL,
    crc          INTEGER NOT NULL,
    body         TEXT NOT NULL,
    PRIMARY KEY (sid, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX submission_request ON submission (sid, conversation, request) WHERE request IS NOT NULL;
CREATE INDEX submission_live ON submission (sid, id) WHERE live = 1;

CREATE TABLE document (
    did      INTEGER PRIMARY KEY,
    sid      INTEGER NOT NULL REFERENCES session,
    scope    INTEGER NOT NULL,
    scope_id INTEGER NOT NULL,
    id       INTEGER NOT NULL,
    retired  INTEGER,
    crc      INTEGER NOT NULL,
    record   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX document_id ON document (sid, scope, scope_id, id);
CREATE INDEX document_live ON document (sid, scope, scope_id) WHERE retired IS NULL;

CREATE TABLE revision (
    rid     INTEGER PRIMARY KEY,
    did     INTEGER NOT NULL REFERENCES document,
    seq     INTEGER NOT NULL,
    version INTEGER,
    crc     INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX revision_seq ON revision (did, seq);
CREATE INDEX revision_base ON revision (did, seq) WHERE version IS NOT NULL;

CREATE TABLE usage (
    rid  INTEGER PRIMARY KEY,
    sid  INTEGER NOT NULL REFERENCES session,
    seq  INTEGER NOT NULL,
    crc  INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX usage_session ON usage (sid);

-- For people with the sqlite3 tool: select * from transcript where session = '...';
CREATE VIEW transcript AS
SELECT s.id AS session, e.conversation, e.id AS entry, e.seq, e.kind,
       strftime('%Y-%m-%d %H:%M:%f', e.time / 1000.0, 'unixepoch') AS time,
       (SELECT group_concat(part.atom, '') FROM json_tree(e.body, '$.messages') part WHERE part.key = 'text') AS text,
       json_extract(e.body, '$.data') AS data
FROM session s JOIN entry e ON e.sid = s.sid
ORDER BY s.id, e.id;
