-- Unique jobs: one job for each key, completed ones included. How a producer finds out whether there is one already.

-- name: add_key
-- Beside the columns of status_column_jobs.
ALTER TABLE status_column_jobs ADD COLUMN unique_key text

-- name: index_plain
-- The check reads this index, which allows several jobs with one key.
CREATE INDEX status_column_jobs_key ON status_column_jobs (unique_key)

-- name: index_unique
-- The server allows one job for each key.
CREATE UNIQUE INDEX status_column_jobs_key ON status_column_jobs (unique_key) WHERE unique_key IS NOT NULL

-- name: begin
-- Starts the transaction of an enqueue.
BEGIN

-- name: lock
-- Waits for other transactions that enqueue the same key.
SELECT pg_advisory_xact_lock(hashtextextended($1, 0))

-- name: check
-- Whether a committed job has this key.
SELECT count(*) FROM status_column_jobs WHERE unique_key = $1

-- name: insert
-- Adds the job.
INSERT INTO status_column_jobs (unique_key, payload) VALUES (nullif($1, ''), $2::json) RETURNING job_id

-- name: insert_or_skip
-- Adds the job, unless there is one with its key: then it returns no row. Waits for a transaction that is about to add one.
INSERT INTO status_column_jobs (unique_key, payload)
VALUES (nullif($1, ''), $2::json)
ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL DO NOTHING
RETURNING job_id

-- name: go_on
-- The rest of the transaction that the enqueue is a part of.
SELECT pg_sleep($1::float8)

-- name: commit
-- Ends the transaction.
COMMIT

-- name: rollback
-- Ends a transaction whose jobs are not wanted.
ROLLBACK
