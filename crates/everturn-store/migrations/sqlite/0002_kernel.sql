-- The kernel, whole: what changed since a commit, mail, blobs, search, deletion. docs/format.md describes each.

ALTER TABLE session ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN deleted INTEGER;
CREATE INDEX session_due ON session (due, id) WHERE due IS NOT NULL;
CREATE INDEX session_deleted ON session (sid) WHERE deleted = 0;

ALTER TABLE conversation ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
-- Who reads a session's changes from its beginning is told of each conversation, and before of what is in it: with its
-- first entry at the latest; without one, with the entry that it forked from.
UPDATE conversation SET seq = CASE id WHEN 1 THEN 1 ELSE coalesce(
    (SELECT e.seq FROM entry e INDEXED BY entry_id
        WHERE e.sid = conversation.sid AND e.conversation = conversation.id ORDER BY e.id LIMIT 1),
    -- What a fork inherits begins with its second span, which ends in that entry.
    (SELECT e.seq FROM entry e INDEXED BY entry_id
        WHERE e.sid = conversation.sid AND e.conversation = conversation.body ->> '$.lineage[1].conversation'
            AND e.id = conversation.body ->> '$.parent.at'),
    1
) END;

-- Who follows a session asks what ended behind its place; what lives is few and asked whole.
CREATE INDEX task_ended ON task (sid, seq) WHERE live = 0;
CREATE INDEX submission_settled ON submission (sid, seq) WHERE live = 0;

ALTER TABLE document ADD COLUMN number INTEGER;
CREATE INDEX document_retired ON document (sid, retired) WHERE retired IS NOT NULL;
-- Of those that ended, the few that still have revisions.
CREATE INDEX document_kept ON document (sid, retired)
    WHERE retired IS NOT NULL AND record ->> '$.history' = 'rewindable';
ALTER TABLE revision ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE revision SET number = ranked.number FROM (
    SELECT rid, row_number() OVER (PARTITION BY did ORDER BY rid) AS number FROM revision
) AS ranked WHERE ranked.rid = revision.rid;
UPDATE document SET number = 1 + (SELECT count(*) FROM revision WHERE revision.did = document.did)
    WHERE retired IS NOT NULL;

-- Which entry is where: what came last on a few pages that all sessions share, all else in its order.
CREATE TABLE place (
    sid          INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    id           INTEGER NOT NULL,
    rid          INTEGER NOT NULL,
    PRIMARY KEY (sid, conversation, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE place_new (
    sid          INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    id           INTEGER NOT NULL,
    rid          INTEGER NOT NULL,
    PRIMARY KEY (sid, conversation, id)
) STRICT, WITHOUT ROWID;
INSERT INTO place (sid, conversation, id, rid)
    SELECT sid, conversation, id, rid FROM entry ORDER BY sid, conversation, id;
DROP INDEX entry_id;

CREATE TABLE mail (
    mid          INTEGER PRIMARY KEY,
    sid          INTEGER NOT NULL REFERENCES session,
    key          TEXT NOT NULL,
    kind         TEXT NOT NULL,
    conversation INTEGER,
    request      TEXT,
    actor        TEXT NOT NULL,
    time         INTEGER NOT NULL,
    crc          INTEGER NOT NULL,
    body         TEXT NOT NULL,
    taken        INTEGER,
    receipt      TEXT
) STRICT;
CREATE UNIQUE INDEX mail_key ON mail (sid, key);
CREATE INDEX mail_waiting ON mail (sid, mid) WHERE taken IS NULL;

CREATE TABLE blob (
    bid    INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT 'local',
    upload TEXT UNIQUE,
    id     TEXT,
    size   INTEGER,
    time   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX blob_id ON blob (tenant, id) WHERE id IS NOT NULL;
CREATE INDEX blob_given_up ON blob (bid) WHERE upload IS NULL AND id IS NULL;

CREATE TABLE chunk (
    bid    INTEGER NOT NULL REFERENCES blob,
    number INTEGER NOT NULL,
    crc    INTEGER NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (bid, number)
) STRICT;

CREATE TABLE blob_use (
    sid INTEGER NOT NULL REFERENCES session,
    bid INTEGER NOT NULL REFERENCES blob,
    PRIMARY KEY (sid, bid)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_blob ON blob_use (bid);

-- What goes in is made of words by our own rule of what a word is: this tokenizer leaves it as it is.
CREATE VIRTUAL TABLE search USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
CREATE TABLE search_mark (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    rid  INTEGER NOT NULL
) STRICT;
INSERT INTO search_mark (only, rid) VALUES (1, 0);
