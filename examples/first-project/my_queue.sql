-- The statements of the queue in my_queue.py. Each begins at a line with its name. $1, $2 are its parameters.

-- name: install
-- Runs once, on an empty database.
CREATE TABLE my_jobs
(
  job_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_at     timestamptz NOT NULL DEFAULT now(),
  attempts   integer     NOT NULL DEFAULT 0,
  last_error text,
  payload    json        NOT NULL
)

-- name: enqueue
-- Adds one job.
INSERT INTO my_jobs (payload) VALUES ($1::json) RETURNING job_id

-- name: begin
-- The transaction that a worker holds from claim to completion.
BEGIN

-- name: claim
-- Locks the first job that nobody else has locked.
SELECT job_id, attempts, payload FROM my_jobs WHERE run_at <= now() ORDER BY job_id LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: complete
-- Deletes the job that is locked.
DELETE FROM my_jobs WHERE job_id = $1

-- name: fail
-- Counts the attempt and delays the job by one second for each attempt.
UPDATE my_jobs SET attempts = attempts + 1, last_error = $1, run_at = now() + (attempts + 1) * interval '1 second' WHERE job_id = $2

-- name: commit
-- Makes completion or failure final, and unlocks the job.
COMMIT

-- name: backlog
-- How many jobs are due and not locked, and the age of the oldest in seconds.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM my_jobs
WHERE run_at <= now() AND xmax NOT IN (SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL)

-- name: job_ids
-- Every job that the table holds, and whether a worker has locked it.
SELECT job_id, xmax IN (SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL) FROM my_jobs
