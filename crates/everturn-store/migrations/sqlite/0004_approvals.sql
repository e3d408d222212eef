-- Approvals: questions that calls wait with. docs/format.md describes each.

CREATE TABLE approval (
    sid  INTEGER NOT NULL REFERENCES session,
    id   INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    call INTEGER NOT NULL,
    open INTEGER NOT NULL,
    crc  INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (sid, id)
) STRICT, WITHOUT ROWID;
-- Who answers questions asks for the open ones of all sessions; these are few.
CREATE INDEX approval_open ON approval (sid, id) WHERE open = 1;
CREATE INDEX approval_over ON approval (sid, seq) WHERE open = 0;
