-- Enqueued jobs, until the mover moves them to Redis.

-- name: install
-- The id gives the order.
CREATE TABLE redis_batches_jobs
(
  job_id      bigserial   NOT NULL,
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  payload     json        NOT NULL,
  CONSTRAINT redis_batches_jobs_pkey PRIMARY KEY (job_id)
)

-- name: enqueue
-- Adds one job.
INSERT INTO redis_batches_jobs (payload) VALUES ($1::json) RETURNING job_id

-- name: take_ids
-- Returns the wanted number of new ids.
SELECT nextval('redis_batches_jobs_job_id_seq') FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs.
COPY redis_batches_jobs (job_id, payload) FROM STDIN

-- name: begin
-- Begins the transaction of a batch.
BEGIN

-- name: commit
-- Ends it.
COMMIT

-- name: take_batch
-- Deletes the first jobs, up to $1 of them, and returns them.
DELETE FROM redis_batches_jobs
WHERE job_id IN (SELECT job_id FROM redis_batches_jobs ORDER BY job_id LIMIT $1::bigint FOR UPDATE SKIP LOCKED)
RETURNING job_id, extract(epoch FROM enqueued_at)::float8, payload

-- name: backlog
-- Jobs that the mover has not taken yet.
SELECT count(*), extract(epoch FROM now() - min(enqueued_at))::float8 FROM redis_batches_jobs

-- name: job_ids
-- The ids of the same jobs.
SELECT job_id FROM redis_batches_jobs
