-- Unique jobs that are scheduled first, and made ready by a stager.

-- name: schedule_new_jobs
-- New jobs are due {delay} seconds later, and up to {jitter} more.
ALTER TABLE status_column_jobs
  ALTER COLUMN status SET DEFAULT 'scheduled',
  ALTER COLUMN run_at SET DEFAULT now() + ({delay} + {jitter} * random()) * interval '1 second'

-- name: put_off_new_jobs
-- They are due at the next multiple of {every} seconds after that.
ALTER TABLE status_column_jobs
  ALTER COLUMN run_at SET DEFAULT to_timestamp({every} * ceil(extract(epoch FROM now() + {delay} * interval '1 second') / {every}))
    + {jitter} * random() * interval '1 second'

-- name: due_times
-- When these jobs are due, in microseconds since 1970.
SELECT job_id, (extract(epoch FROM run_at) * 1000000)::bigint FROM status_column_jobs WHERE job_id = ANY($1::bigint[])

-- name: index_scheduled
-- The stager reads this index.
CREATE INDEX status_column_jobs_scheduled ON status_column_jobs (run_at) WHERE status = 'scheduled'

-- name: index_unique_when_ready
-- The server allows one job with a key that is ready or claimed, and any number that are scheduled.
CREATE UNIQUE INDEX status_column_jobs_key_when_ready ON status_column_jobs (unique_key)
WHERE unique_key IS NOT NULL AND status IN ('ready', 'claimed')

-- name: try_to_lock_stager
-- Whether no other worker stages now. Its own statement: the next one must see what the former stager has committed.
SELECT pg_try_advisory_xact_lock(hashtextextended('staged_jobs', 0))::int

-- name: limit_stager
-- Lets the server cancel the next statement of the transaction after that time.
SET LOCAL statement_timeout = {timeout_ms}

-- name: stage_in_batches
-- Makes the first due jobs ready, {batch} at most.
UPDATE status_column_jobs
SET status = 'ready'
WHERE job_id IN (
  SELECT job_id FROM status_column_jobs WHERE status = 'scheduled' AND run_at <= now() ORDER BY run_at LIMIT {batch}
)

-- name: stage_in_one_statement
-- Makes all due jobs ready, or none.
UPDATE status_column_jobs SET status = 'ready' WHERE status = 'scheduled' AND run_at <= now()

-- name: stage_skip_conflicts
-- The same for the first due job of each key that no ready or claimed job has.
UPDATE status_column_jobs
SET status = 'ready'
WHERE status = 'scheduled' AND job_id IN (
  SELECT min(job_id)
  FROM status_column_jobs AS due
  WHERE status = 'scheduled' AND run_at <= now()
  AND NOT EXISTS (
    SELECT 1 FROM status_column_jobs AS other WHERE other.unique_key = due.unique_key AND other.status IN ('ready', 'claimed')
  )
  GROUP BY coalesce(unique_key, job_id::text)
)

-- name: backlog
-- Jobs that are due, staged or not, or that have been claimed for longer than $1 seconds.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM status_column_jobs
WHERE (status IN ('ready', 'scheduled') AND run_at <= now())
OR (status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second')
