-- Tasks, whole: who waits for code, and which conversations are a task's work. docs/format.md describes each.

ALTER TABLE task ADD COLUMN lacks TEXT;
ALTER TABLE task ADD COLUMN needs INTEGER;
-- Who has code asks by kind and version, whatever the session; what is blocked is few.
CREATE INDEX task_blocked ON task (lacks, needs, sid) WHERE needs IS NOT NULL;

ALTER TABLE conversation ADD COLUMN owner INTEGER;
-- A body that is no JSON stays as it is and is told when it is read: it does not keep the store from opening.
UPDATE conversation SET owner = body ->> '$.owner'
    WHERE CASE WHEN json_valid(body) THEN json_type(body, '$.owner') END = 'integer';
CREATE INDEX conversation_owner ON conversation (sid, owner, id) WHERE owner IS NOT NULL;
