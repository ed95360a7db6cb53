-- A queue with PostgreSQL's row locks (since 9.5): the row lock is the claim, and the deletion is committed with the work.

-- name: install
-- Jobs are executed in the order of their ids.
CREATE TABLE skip_locked_jobs
(
  job_id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT skip_locked_jobs_pkey PRIMARY KEY,
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  run_at      timestamptz NOT NULL DEFAULT now(),
  attempts    integer     NOT NULL DEFAULT 0,
  last_error  text,
  payload     json        NOT NULL
)

-- name: enqueue
-- Adds one job.
INSERT INTO skip_locked_jobs (payload) VALUES ($1::json) RETURNING job_id

-- name: take_ids
-- Ids for jobs that are copied into the table.
SELECT nextval(pg_get_serial_sequence('skip_locked_jobs', 'job_id')) FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs.
COPY skip_locked_jobs (job_id, payload) FROM STDIN

-- name: enqueue_and_notify_job_id
-- Adds one job and notifies all listeners; the notification is sent at the commit.
WITH job AS (INSERT INTO skip_locked_jobs (payload) VALUES ($1::json) RETURNING job_id)
SELECT job_id, pg_notify('skip_locked_jobs', job_id::text) FROM job

-- name: enqueue_and_notify_job
-- The same, with the whole row in the notification. The server refuses a notification of 8000 bytes or more.
WITH job AS (INSERT INTO skip_locked_jobs (payload) VALUES ($1::json) RETURNING *)
SELECT job_id, pg_notify('skip_locked_jobs', row_to_json(job)::text) FROM job

-- name: enqueue_and_notify_empty
-- The same without content. The server sends equal notifications of one transaction only once.
WITH job AS (INSERT INTO skip_locked_jobs (payload) VALUES ($1::json) RETURNING job_id)
SELECT job_id, pg_notify('skip_locked_jobs', '') FROM job

-- name: listen
-- Receives a notification for each enqueue.
LISTEN skip_locked_jobs

-- name: vacuum
-- Removes the dead rows of completed jobs.
VACUUM skip_locked_jobs

-- name: begin
-- The transaction that a worker holds from claim to completion.
BEGIN

-- name: claim
-- Locks the first job that nobody else has locked.
SELECT job_id, attempts, payload
FROM skip_locked_jobs
WHERE run_at <= now()
ORDER BY job_id
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: complete
-- Deletes a job that is locked.
DELETE FROM skip_locked_jobs WHERE job_id = $1

-- name: fail
-- Counts the attempt and delays the job by one second for each attempt.
UPDATE skip_locked_jobs
SET attempts = attempts + 1, last_error = $1, run_at = now() + (attempts + 1) * interval '1 second'
WHERE job_id = $2

-- name: commit
-- Makes completion or failure final and unlocks the row.
COMMIT

-- name: backlog
-- Due jobs that no open transaction of a worker has locked.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM skip_locked_jobs
WHERE run_at <= now()
AND xmax NOT IN (SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL)

-- name: job_ids
-- Every job that the table holds, and whether an open transaction has locked it.
SELECT job_id, xmax IN (SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL)
FROM skip_locked_jobs
