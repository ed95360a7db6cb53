-- A claim takes a batch of jobs in the order of their priority, while another statement changes all waiting jobs at once.

-- name: install
-- A job's priority is better the smaller it is.
CREATE TABLE batch_claim_jobs
(
  job_id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT batch_claim_jobs_pkey PRIMARY KEY,
  status      text        NOT NULL DEFAULT 'ready',
  priority    integer     NOT NULL,
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  run_at      timestamptz NOT NULL DEFAULT now(),
  claimed_at  timestamptz,
  attempts    integer     NOT NULL DEFAULT 0,
  last_error  text,
  payload     json        NOT NULL
)

-- name: index_ready
-- The claim reads ready jobs in this order.
CREATE INDEX batch_claim_jobs_ready ON batch_claim_jobs (priority, job_id) WHERE status = 'ready'

-- name: index_claimed
-- The rescue of expired claims reads this index.
CREATE INDEX batch_claim_jobs_claimed ON batch_claim_jobs (claimed_at) WHERE status = 'claimed'

-- name: enqueue
-- Adds one job.
INSERT INTO batch_claim_jobs (priority, payload) VALUES ($1::integer, $2::json) RETURNING job_id

-- name: take_ids
-- Ids for jobs that are copied into the table.
SELECT nextval(pg_get_serial_sequence('batch_claim_jobs', 'job_id')) FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs.
COPY batch_claim_jobs (job_id, priority, payload) FROM STDIN

-- name: claim_in_turn
-- Locks the best jobs in the order of their priority, and waits for each that another session has locked. {skip}: or leaves these out.
WITH chosen AS MATERIALIZED (
  SELECT job_id
  FROM batch_claim_jobs
  WHERE status = 'ready' AND run_at <= now()
  ORDER BY priority, job_id
  LIMIT {batch}
  FOR UPDATE {skip}
)
UPDATE batch_claim_jobs
SET status = 'claimed', claimed_at = now(), attempts = attempts + 1
FROM chosen
WHERE batch_claim_jobs.job_id = chosen.job_id
RETURNING batch_claim_jobs.job_id, attempts, payload

-- name: claim_by_id
-- Finds the best jobs by their priority, and locks those that are still ready in the order of their ids.
WITH found AS MATERIALIZED (
  SELECT job_id FROM batch_claim_jobs WHERE status = 'ready' AND run_at <= now() ORDER BY priority, job_id LIMIT {batch}
), chosen AS MATERIALIZED (
  SELECT job_id
  FROM batch_claim_jobs
  WHERE job_id IN (SELECT job_id FROM found) AND status = 'ready'
  ORDER BY job_id
  FOR UPDATE
)
UPDATE batch_claim_jobs
SET status = 'claimed', claimed_at = now(), attempts = attempts + 1
FROM chosen
WHERE batch_claim_jobs.job_id = chosen.job_id
RETURNING batch_claim_jobs.job_id, attempts, payload

-- name: age
-- Improves the priority of all jobs that wait, in the order in which the server finds them: that of the table, which is about that of their ids.
UPDATE batch_claim_jobs SET priority = priority - 1 WHERE status = 'ready' AND run_at <= now()

-- name: age_by_id
-- The same, but locks them in the order of their ids first.
WITH chosen AS MATERIALIZED (
  SELECT job_id FROM batch_claim_jobs WHERE status = 'ready' AND run_at <= now() ORDER BY job_id FOR UPDATE
)
UPDATE batch_claim_jobs SET priority = priority - 1 FROM chosen WHERE batch_claim_jobs.job_id = chosen.job_id

-- name: rescue
-- Releases the jobs that have been claimed for longer than $1 seconds: their workers are presumed dead.
UPDATE batch_claim_jobs
SET status = 'ready'
WHERE status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second'

-- name: complete
-- Deletes the job; changes nothing if the claim has been released meanwhile.
DELETE FROM batch_claim_jobs WHERE job_id = $1 AND status = 'claimed' AND attempts = $2

-- name: release
-- Returns a job that was claimed with its batch and not begun.
UPDATE batch_claim_jobs SET status = 'ready', attempts = attempts - 1 WHERE job_id = $1 AND status = 'claimed' AND attempts = $2

-- name: fail
-- Delays the job by one second for each attempt.
UPDATE batch_claim_jobs
SET status = 'ready', last_error = $1, run_at = now() + attempts * interval '1 second'
WHERE job_id = $2 AND status = 'claimed' AND attempts = $3

-- name: backlog
-- Jobs that are due and ready, or that have been claimed for longer than $1 seconds.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM batch_claim_jobs
WHERE (status = 'ready' AND run_at <= now())
OR (status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second')

-- name: job_ids
-- Every job, and whether it is claimed, for {expire_after} seconds at most.
SELECT job_id, status = 'claimed' AND claimed_at > now() - {expire_after} * interval '1 second' FROM batch_claim_jobs
