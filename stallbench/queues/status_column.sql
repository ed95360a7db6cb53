-- A claim in one statement: the row is chosen, locked and marked by an UPDATE that is committed at once, so that no transaction stays open.

-- name: install
-- {fillfactor}: share of a page that INSERT fills; the rest is free for the row's next version (a HOT update).
CREATE TABLE status_column_jobs
(
  job_id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT status_column_jobs_pkey PRIMARY KEY,
  status      text        NOT NULL DEFAULT 'ready',
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  run_at      timestamptz NOT NULL DEFAULT now(),
  claimed_at  timestamptz,
  attempts    integer     NOT NULL DEFAULT 0,
  last_error  text,
  payload     json        NOT NULL
)
WITH (fillfactor = {fillfactor})

-- name: index_ready
-- The claim reads only ready jobs, by this index. Because of its condition on status, an UPDATE of the status cannot be HOT.
CREATE INDEX status_column_jobs_ready ON status_column_jobs (job_id) WHERE status = 'ready'

-- name: index_claimed
-- The rescue of expired claims reads this index.
CREATE INDEX status_column_jobs_claimed ON status_column_jobs (claimed_at) WHERE status = 'claimed'

-- name: enqueue
-- Adds one job.
INSERT INTO status_column_jobs (payload) VALUES ($1::json) RETURNING job_id

-- name: take_ids
-- Ids for jobs that are copied into the table.
SELECT nextval(pg_get_serial_sequence('status_column_jobs', 'job_id')) FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs.
COPY status_column_jobs (job_id, payload) FROM STDIN

-- name: claim
-- Claims the first ready job that no other worker is claiming at the moment.
UPDATE status_column_jobs
SET status = 'claimed', claimed_at = now(), attempts = attempts + 1
WHERE job_id = (
  SELECT job_id
  FROM status_column_jobs
  WHERE status = 'ready' AND run_at <= now()
  ORDER BY job_id
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
RETURNING job_id, attempts, payload

-- name: rescue
-- Releases the jobs that have been claimed for longer than $1 seconds: their workers are presumed dead.
UPDATE status_column_jobs
SET status = 'ready'
WHERE status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second'

-- name: complete_mark
-- Marks the job as done; changes nothing if the claim has been released meanwhile.
UPDATE status_column_jobs SET status = 'done' WHERE job_id = $1 AND status = 'claimed' AND attempts = $2

-- name: complete_delete
-- Deletes the job, on the same condition.
DELETE FROM status_column_jobs WHERE job_id = $1 AND status = 'claimed' AND attempts = $2

-- name: fail
-- Delays the job by one second for each attempt.
UPDATE status_column_jobs
SET status = 'ready', last_error = $1, run_at = now() + attempts * interval '1 second'
WHERE job_id = $2 AND status = 'claimed' AND attempts = $3

-- name: backlog
-- Jobs that are due and ready, or that have been claimed for longer than $1 seconds.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM status_column_jobs
WHERE (status = 'ready' AND run_at <= now())
OR (status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second')

-- name: job_ids
-- Every job that is not done, and whether it is claimed, for {expire_after} seconds at most.
SELECT job_id, status = 'claimed' AND claimed_at > now() - {expire_after} * interval '1 second'
FROM status_column_jobs
WHERE status <> 'done'
