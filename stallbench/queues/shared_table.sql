-- Several queues in one table, as in pg-boss, PgQueuer, GoodJob and Oban: a claim finds the jobs of its queue among those of all queues.

-- name: install_ids
-- A column with an identity cannot be in a partitioned table before PostgreSQL 17.
CREATE SEQUENCE shared_jobs_ids

-- name: install
-- {key}: the primary key; that of a partitioned table contains the queue. {partitioned}: whether queues have partitions of their own.
CREATE TABLE shared_jobs
(
  job_id      bigint      NOT NULL DEFAULT nextval('shared_jobs_ids'),
  queue       text        NOT NULL,
  status      text        NOT NULL DEFAULT 'ready',
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  run_at      timestamptz NOT NULL DEFAULT now(),
  claimed_at  timestamptz,
  attempts    integer     NOT NULL DEFAULT 0,
  last_error  text,
  payload     json        NOT NULL,
  CONSTRAINT shared_jobs_pkey PRIMARY KEY ({key})
)
{partitioned}

-- name: install_own_partition
-- The partition of the queue that the workers serve.
CREATE TABLE shared_jobs_default PARTITION OF shared_jobs FOR VALUES IN ('default')

-- name: install_other_partition
-- The partition of all other queues.
CREATE TABLE shared_jobs_others PARTITION OF shared_jobs DEFAULT

-- name: index_ready
-- The ready jobs of all queues, in the order of their ids.
CREATE INDEX shared_jobs_ready ON shared_jobs (job_id) WHERE status = 'ready'

-- name: index_queue
-- The ready jobs of each queue, in the order of their ids: the index that fits the claim.
CREATE INDEX shared_jobs_queue ON shared_jobs (queue, job_id) WHERE status = 'ready'

-- name: index_run_at
-- The ready jobs of each queue, in the order in which they are due.
CREATE INDEX shared_jobs_run_at ON shared_jobs (queue, run_at, job_id) WHERE status = 'ready'

-- name: index_claimed
-- The rescue of expired claims reads this index.
CREATE INDEX shared_jobs_claimed ON shared_jobs (claimed_at) WHERE status = 'claimed'

-- name: index_backlog
-- Only for the bench, which counts the ready jobs each second. No claim contains these expressions, so no claim can use the index.
CREATE INDEX shared_jobs_backlog ON shared_jobs ((queue || ''), (nullif(run_at, '-infinity'))) WHERE status = 'ready'

-- name: enqueue
-- Adds one job.
INSERT INTO shared_jobs (queue, payload) VALUES ($1, $2::json) RETURNING job_id

-- name: take_ids
-- Ids for jobs that are copied into the table.
SELECT nextval('shared_jobs_ids') FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs.
COPY shared_jobs (job_id, queue, payload) FROM STDIN

-- name: claim
-- Marks the chosen job. {choice}: one of the statements below.
UPDATE shared_jobs
SET status = 'claimed', claimed_at = now(), attempts = attempts + 1
WHERE (queue, job_id) = ({choice})
RETURNING job_id, attempts, payload, queue

-- name: one_queue
-- The first job of one queue. {queue}, {status}: constants, or parameters, as many object-relational mappers send them.
SELECT queue, job_id
FROM shared_jobs
WHERE queue = {queue} AND status = {status} AND run_at <= now()
ORDER BY {order}
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: all_queues
-- The first job of all queues.
SELECT queue, job_id
FROM shared_jobs
WHERE status = 'ready' AND run_at <= now()
ORDER BY {order}
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: round_robin
-- The first job of the next queue after $1, by name, that has a ready job.
SELECT queue, job_id
FROM shared_jobs
WHERE status = 'ready' AND run_at <= now() AND queue > $1
ORDER BY queue, {order}
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: strict
-- The first job of the first queue by name that has a ready job: the others wait as long as it has any.
SELECT queue, job_id
FROM shared_jobs
WHERE status = 'ready' AND run_at <= now()
ORDER BY queue, {order}
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: limited
-- The first job of those queues of which fewer than {limit} jobs are claimed.
WITH RECURSIVE queues AS (
  (SELECT queue FROM shared_jobs WHERE status = 'ready' ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (SELECT queue FROM shared_jobs WHERE status = 'ready' AND queue > queues.queue ORDER BY queue LIMIT 1)
  FROM queues
  WHERE queues.queue IS NOT NULL
)
SELECT queues.queue, next.job_id
FROM queues
CROSS JOIN LATERAL (
  SELECT job_id
  FROM shared_jobs
  WHERE queue = queues.queue AND status = 'ready' AND run_at <= now()
  ORDER BY {order}
  LIMIT 1
  FOR UPDATE SKIP LOCKED
) AS next
WHERE (SELECT count(*) FROM shared_jobs AS claimed WHERE claimed.status = 'claimed' AND claimed.queue = queues.queue) < {limit}
ORDER BY next.job_id
LIMIT 1

-- name: rescue
-- Releases the jobs that have been claimed for longer than $1 seconds: their workers are presumed dead.
UPDATE shared_jobs
SET status = 'ready'
WHERE status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second'

-- name: complete
-- Deletes the job; changes nothing if the claim has been released meanwhile.
DELETE FROM shared_jobs WHERE queue = $1 AND job_id = $2 AND status = 'claimed' AND attempts = $3

-- name: fail
-- Delays the job by one second for each attempt.
UPDATE shared_jobs
SET status = 'ready', last_error = $1, run_at = now() + attempts * interval '1 second'
WHERE queue = $2 AND job_id = $3 AND status = 'claimed' AND attempts = $4

-- name: add_ready
-- $1 ready jobs of another queue, which no worker of the bench serves.
INSERT INTO shared_jobs (queue, payload) SELECT 'other', '{}' FROM generate_series(1, $1::bigint)

-- name: add_failed
-- $1 jobs of the workers' own queue that have failed for good.
INSERT INTO shared_jobs (queue, status, run_at, payload) SELECT 'default', 'failed', 'infinity', '{}' FROM generate_series(1, $1::bigint)

-- name: add_future
-- $1 jobs of the workers' own queue that are due later.
INSERT INTO shared_jobs (queue, run_at, payload) SELECT 'default', 'infinity', '{}' FROM generate_series(1, $1::bigint)

-- name: count_other
-- How many of these there are.
SELECT count(*) FROM shared_jobs WHERE queue = 'other' OR run_at = 'infinity'

-- name: remove_other
-- Removes them.
DELETE FROM shared_jobs WHERE queue = 'other' OR run_at = 'infinity'

-- name: backlog_default
-- Jobs of the queue that are due and ready, or that have been claimed for longer than $1 seconds.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM (
  SELECT run_at FROM shared_jobs WHERE queue || '' = 'default' AND nullif(run_at, '-infinity') <= now() AND status = 'ready'
  UNION ALL
  SELECT run_at FROM shared_jobs WHERE status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second'
) AS waiting

-- name: backlog_all
-- The same, of all queues.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM shared_jobs
WHERE (status = 'ready' AND run_at <= now())
OR (status = 'claimed' AND claimed_at <= now() - $1::integer * interval '1 second')

-- name: job_ids
-- Every job that the bench enqueued, and whether it is claimed, for {expire_after} seconds at most.
SELECT job_id, status = 'claimed' AND claimed_at > now() - {expire_after} * interval '1 second'
FROM shared_jobs
WHERE queue <> 'other' AND run_at < 'infinity'
