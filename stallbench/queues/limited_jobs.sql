-- Jobs of which only one of each key may be executed at a time: a semaphore for each key, which a claim takes.

-- name: add_key
-- The keys are those of {keys} tenants, one after the other.
ALTER TABLE status_column_jobs ADD COLUMN limit_key bigint GENERATED ALWAYS AS (job_id % {keys}) STORED

-- name: index_key
-- The claim finds the first ready job of a key.
CREATE INDEX status_column_jobs_ready_by_key ON status_column_jobs (limit_key, job_id) WHERE status = 'ready'

-- name: create_semaphores
-- How many more jobs of a key may be executed now, and since when the latest one is.
CREATE TABLE limited_jobs_semaphores
(
  key      bigint CONSTRAINT limited_jobs_semaphores_pkey PRIMARY KEY,
  value    integer NOT NULL DEFAULT 1,
  taken_at timestamptz
)

-- name: add_semaphores
-- One for each key.
INSERT INTO limited_jobs_semaphores (key) SELECT generate_series(0, {keys} - 1)

-- name: claim
-- Claims the first ready job of a key whose semaphore is free, and takes the semaphore. One worker at a time looks at a key.
WITH free AS (
  SELECT key
  FROM limited_jobs_semaphores
  WHERE (value > 0 OR {is_expired})
  AND EXISTS (SELECT FROM status_column_jobs WHERE limit_key = key AND status = 'ready' AND run_at <= now())
  ORDER BY (SELECT min(job_id) FROM status_column_jobs WHERE limit_key = key AND status = 'ready')
  LIMIT 1
  FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE status_column_jobs
  SET status = 'claimed', claimed_at = now(), attempts = attempts + 1
  WHERE job_id = (
    SELECT job_id
    FROM status_column_jobs
    WHERE limit_key = (SELECT key FROM free) AND status = 'ready' AND run_at <= now()
    ORDER BY job_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
  )
  RETURNING job_id, attempts, payload, limit_key
), taken AS (
  UPDATE limited_jobs_semaphores SET value = greatest(value - 1, 0), taken_at = now() WHERE key IN (SELECT limit_key FROM claimed)
)
SELECT job_id, attempts, payload FROM claimed

-- name: rescue
-- Releases the jobs that have been claimed for longer than $1 seconds, and leaves their semaphores taken.
UPDATE status_column_jobs
SET status = 'ready'
WHERE status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second'

-- name: rescue_and_release
-- The same, and releases their semaphores.
WITH rescued AS (
  UPDATE status_column_jobs
  SET status = 'ready'
  WHERE status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second'
  RETURNING limit_key
)
UPDATE limited_jobs_semaphores
SET value = value + (SELECT count(*) FROM rescued WHERE limit_key = key)
WHERE key IN (SELECT limit_key FROM rescued)

-- name: complete_mark
-- Marks the job as done if this worker still has it; releases its semaphore then, and with {always} in any case. Returns whether it had it.
WITH done AS (
  UPDATE status_column_jobs SET status = 'done' WHERE job_id = $1 AND status = 'claimed' AND attempts = $2 RETURNING limit_key
), released AS (
  UPDATE limited_jobs_semaphores SET value = value + 1 WHERE key = $1::bigint % {keys} AND ({always} OR EXISTS (SELECT FROM done))
)
SELECT limit_key FROM done

-- name: complete_delete
-- Deletes the job, and releases the semaphore on the same condition.
WITH done AS (
  DELETE FROM status_column_jobs WHERE job_id = $1 AND status = 'claimed' AND attempts = $2 RETURNING limit_key
), released AS (
  UPDATE limited_jobs_semaphores SET value = value + 1 WHERE key = $1::bigint % {keys} AND ({always} OR EXISTS (SELECT FROM done))
)
SELECT limit_key FROM done

-- name: fail
-- Delays the job by one second for each attempt, and releases the semaphore on the same condition.
WITH failed AS (
  UPDATE status_column_jobs
  SET status = 'ready', last_error = $1, run_at = now() + attempts * interval '1 second'
  WHERE job_id = $2 AND status = 'claimed' AND attempts = $3
  RETURNING limit_key
), released AS (
  UPDATE limited_jobs_semaphores SET value = value + 1 WHERE key = $2::bigint % {keys} AND ({always} OR EXISTS (SELECT FROM failed))
)
SELECT limit_key FROM failed
