-- Que 0.x (Ruby): lib/que/sql.rb and its migrations up to version 3. The statements are Que's own, including their defects.

-- name: install
-- The jobs table as migrations 1 to 3 leave it.
CREATE TABLE que_jobs
(
  priority    smallint    NOT NULL DEFAULT 100,
  run_at      timestamptz NOT NULL DEFAULT now(),
  job_id      bigserial   NOT NULL,
  job_class   text        NOT NULL,
  args        json        NOT NULL DEFAULT '[]'::json,
  error_count integer     NOT NULL DEFAULT 0,
  last_error  text,
  queue       text        NOT NULL DEFAULT '',

  CONSTRAINT que_jobs_pkey PRIMARY KEY (queue, priority, run_at, job_id)
)

-- name: insert_job
-- Enqueues one job.
INSERT INTO que_jobs
(queue, priority, run_at, job_class, args)
VALUES
(coalesce($1, '')::text, coalesce($2, 100)::smallint, coalesce($3, now())::timestamptz, $4::text, coalesce($5, '[]')::json)
RETURNING job_id

-- name: take_ids
-- Ids for jobs that are copied into the table. Not Que's.
SELECT nextval(pg_get_serial_sequence('que_jobs', 'job_id')) FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs. Not Que's.
COPY que_jobs (job_id, queue, priority, job_class, args) FROM STDIN

-- name: lock_job
-- Walks the primary key in order of priority, time and id until it obtains an advisory lock on a job.
WITH RECURSIVE job AS (
  SELECT (j).*, pg_try_advisory_lock((j).job_id) AS locked
  FROM (
    SELECT j
    FROM que_jobs AS j
    WHERE queue = $1::text
    AND run_at <= now()
    ORDER BY priority, run_at, job_id
    LIMIT 1
  ) AS t1
  UNION ALL (
    SELECT (j).*, pg_try_advisory_lock((j).job_id) AS locked
    FROM (
      SELECT (
        SELECT j
        FROM que_jobs AS j
        WHERE queue = $1::text
        AND run_at <= now()
        AND (priority, run_at, job_id) > (job.priority, job.run_at, job.job_id)
        ORDER BY priority, run_at, job_id
        LIMIT 1
      ) AS j
      FROM job
      WHERE NOT job.locked
      LIMIT 1
    ) AS t1
  )
)
SELECT queue, priority, run_at, job_id, job_class, args, error_count
FROM job
WHERE locked
LIMIT 1

-- name: lock_job_after
-- Not Que's: lock_job, but the walk starts after the job whose key is $2 to $4; the recursive term is Que's own.
WITH RECURSIVE job AS (
  SELECT (j).*, pg_try_advisory_lock((j).job_id) AS locked
  FROM (
    SELECT j
    FROM que_jobs AS j
    WHERE queue = $1::text
    AND run_at <= now()
    AND (priority, run_at, job_id) > ($2::smallint, $3::timestamptz, $4::bigint)
    ORDER BY priority, run_at, job_id
    LIMIT 1
  ) AS t1
  UNION ALL (
    SELECT (j).*, pg_try_advisory_lock((j).job_id) AS locked
    FROM (
      SELECT (
        SELECT j
        FROM que_jobs AS j
        WHERE queue = $1::text
        AND run_at <= now()
        AND (priority, run_at, job_id) > (job.priority, job.run_at, job.job_id)
        ORDER BY priority, run_at, job_id
        LIMIT 1
      ) AS j
      FROM job
      WHERE NOT job.locked
      LIMIT 1
    ) AS t1
  )
)
SELECT queue, priority, run_at, job_id, job_class, args, error_count
FROM job
WHERE locked
LIMIT 1

-- name: lock_jobs
-- Not Que's: lock_job, but the walk continues until it has $2 locks.
WITH RECURSIVE job AS (
  SELECT (j).*, locked, locked::integer AS held
  FROM (
    SELECT j, pg_try_advisory_lock((j).job_id) AS locked
    FROM (
      SELECT j
      FROM que_jobs AS j
      WHERE queue = $1::text
      AND run_at <= now()
      ORDER BY priority, run_at, job_id
      LIMIT 1
    ) AS t1
  ) AS t2
  UNION ALL (
    SELECT (j).*, locked, held + locked::integer
    FROM (
      SELECT j, held, pg_try_advisory_lock((j).job_id) AS locked
      FROM (
        SELECT (
          SELECT j
          FROM que_jobs AS j
          WHERE queue = $1::text
          AND run_at <= now()
          AND (priority, run_at, job_id) > (job.priority, job.run_at, job.job_id)
          ORDER BY priority, run_at, job_id
          LIMIT 1
        ) AS j, held
        FROM job
        WHERE held < $2::integer
        LIMIT 1
      ) AS t1
      WHERE (j).job_id IS NOT NULL
    ) AS t2
  )
)
SELECT queue, priority, run_at, job_id, job_class, args, error_count
FROM job
WHERE locked

-- name: check_job
-- Checks the job again after locking it: the walk's snapshot may be older than the deletion by another worker.
SELECT 1 AS one
FROM   que_jobs
WHERE  queue    = $1::text
AND    priority = $2::smallint
AND    run_at   = $3::timestamptz
AND    job_id   = $4::bigint

-- name: destroy_job
-- Completes a job.
DELETE FROM que_jobs
WHERE queue    = $1::text
AND   priority = $2::smallint
AND   run_at   = $3::timestamptz
AND   job_id   = $4::bigint

-- name: set_error
-- Delays a failed job; Que's pause is error_count to the fourth, plus 3 seconds.
UPDATE que_jobs
SET error_count = $1::integer,
    run_at      = now() + $2::bigint * '1 second'::interval,
    last_error  = $3::text
WHERE queue     = $4::text
AND   priority  = $5::smallint
AND   run_at    = $6::timestamptz
AND   job_id    = $7::bigint

-- name: unlock_job
-- Releases the advisory lock.
SELECT pg_advisory_unlock($1)

-- name: backlog
-- Not Que's: ready jobs that are not locked, and the age of the oldest.
SELECT count(*) - count(locks.job_id), extract(epoch FROM now() - min(run_at) FILTER (WHERE locks.job_id IS NULL))::float8
FROM que_jobs
LEFT JOIN (
  SELECT (classid::bigint << 32) + objid::bigint AS job_id
  FROM pg_locks
  WHERE locktype = 'advisory' AND granted
) AS locks USING (job_id)
WHERE run_at <= now()

-- name: job_ids
-- Not Que's: every job of the table, and whether it is locked.
SELECT job_id, locks.job_id IS NOT NULL
FROM que_jobs
LEFT JOIN (
  SELECT DISTINCT (classid::bigint << 32) + objid::bigint AS job_id
  FROM pg_locks
  WHERE locktype = 'advisory' AND granted
) AS locks USING (job_id)
