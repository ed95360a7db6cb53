-- A claim in one statement: the row is chosen, locked and marked by an UPDATE that is committed at once, so that no transaction stays open.

-- name: install
-- {storage}: the share of a page that INSERT fills, the rest being free for the row's next version (a HOT update); or the table is partitioned
-- by range of job_id, and `partition` adds the partitions.
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
{storage}

-- name: index_ready
-- The claim reads only ready jobs, by this index. Because of its condition on status, an UPDATE of the status cannot be HOT.
CREATE INDEX status_column_jobs_ready ON status_column_jobs (job_id) WHERE status = 'ready'

-- name: index_claimed
-- The rescue of expired claims reads this index.
CREATE INDEX status_column_jobs_claimed ON status_column_jobs (claimed_at) WHERE status = 'claimed'

-- name: partition
-- Adds partitions of {partition} jobs each for the first {partitioned} jobs, and one for all later jobs.
DO $$
DECLARE
  next_id bigint := 1;
BEGIN
  WHILE next_id <= {partitioned} LOOP
    EXECUTE format(
      'CREATE TABLE status_column_jobs_%s PARTITION OF status_column_jobs FOR VALUES FROM (%s) TO (%s) WITH (fillfactor = {fillfactor})',
      next_id, next_id, next_id + {partition}
    );
    next_id := next_id + {partition};
  END LOOP;
  EXECUTE format(
    'CREATE TABLE status_column_jobs_%s PARTITION OF status_column_jobs FOR VALUES FROM (%s) TO (MAXVALUE) WITH (fillfactor = {fillfactor})',
    next_id, next_id
  );
END
$$

-- name: index_payload_gin
-- Finds jobs by any of their arguments, as river_job_args_index and que_jobs_args_gin_idx do.
CREATE INDEX status_column_jobs_payload ON status_column_jobs USING gin ((payload::jsonb))

-- name: index_payload_gin_without_fastupdate
-- The same; each INSERT adds its entries to the index at once, instead of to a list that VACUUM moves into it.
CREATE INDEX status_column_jobs_payload ON status_column_jobs USING gin ((payload::jsonb)) WITH (fastupdate = off)

-- name: index_payload_btree
-- Finds jobs by one argument.
CREATE INDEX status_column_jobs_payload ON status_column_jobs ((payload ->> 'n'))

-- name: retain
-- Adds $1 completed jobs, which no worker claims.
INSERT INTO status_column_jobs (status, claimed_at, attempts, payload)
SELECT 'done', now(), 1, json_build_object('n', n, 'filling', repeat(md5(n::text), 6)) FROM generate_series(1, $1::bigint) AS n

-- name: publish
-- Adds to the server's statistics what this session has inserted. Otherwise it may be added only after VACUUM has counted the same rows.
-- Until version 14, a session publishes it at the end of a statement, if half a second has passed since the last time.
DO $$
BEGIN
    PERFORM pg_stat_force_next_flush();
EXCEPTION WHEN undefined_function THEN
    PERFORM pg_sleep(1);
END
$$

-- name: vacuum
-- Completed jobs of earlier days have been vacuumed and analyzed.
VACUUM ANALYZE status_column_jobs

-- name: create_queues
-- One row for each queue; enqueues of all jobs of a queue refer to the same row.
CREATE TABLE status_column_queues (name text CONSTRAINT status_column_queues_pkey PRIMARY KEY)

-- name: add_queue
-- The queue of all jobs.
INSERT INTO status_column_queues VALUES ('default')

-- name: name_queue
-- The queue that a job belongs to.
ALTER TABLE status_column_jobs ADD COLUMN queue text NOT NULL DEFAULT 'default'

-- name: reference_queue
-- Each enqueue locks the queue's row with FOR KEY SHARE until its commit, so that the queue cannot be deleted meanwhile.
ALTER TABLE status_column_jobs ADD CONSTRAINT status_column_jobs_queue_fkey FOREIGN KEY (queue) REFERENCES status_column_queues (name)

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
