-- The operations of Postgrestue, as 'Postgrestue' describes them. An operation is sent statement by statement, because the source asks whether
-- that is slower than sending all statements at once.

-- name: begin
-- Every operation is a transaction.
BEGIN

-- name: begin_serializable
-- The same without row locks: a transaction that read what another one has changed must be retried.
BEGIN ISOLATION LEVEL SERIALIZABLE

-- name: commit
-- Ends the transaction.
COMMIT

-- name: rollback
-- Aborts the transaction.
ROLLBACK

-- name: take_block
-- The next block of ids.
SELECT nextval('job_block')

-- name: insert_job
-- Inserts the descriptions of jobs, in the given order.
INSERT INTO job (id, owner_id, kind, max_attempts, timeout, schedule_time, blocking_job_id, queue, arguments)
SELECT id, $1, $2, $3::smallint, make_interval(secs => $4::float8), schedule_time, blocking_job_id, queue, arguments
FROM unnest($5::bigint[], $6::timestamptz[], $7::bigint[], $8::text[], $9::json[])
  AS new (id, schedule_time, blocking_job_id, queue, arguments)

-- name: enqueue
-- Jobs that can be run at once.
INSERT INTO running_job (job_id, attempt, state) SELECT job_id, 1, 'enqueued' FROM unnest($1::bigint[]) AS new (job_id)

-- name: enqueue_scheduled
-- Jobs that wait for their due time.
INSERT INTO scheduled_job (job_id, schedule_time) SELECT * FROM unnest($1::bigint[], $2::timestamptz[])

-- name: enqueue_blocked
-- Jobs that wait for the job that blocks them, unless it has succeeded already.
WITH new AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS new (job_id, blocking_job_id)),
free AS (
  SELECT job_id FROM new
  WHERE EXISTS (SELECT FROM finished_job f WHERE f.job_id = new.blocking_job_id AND f.outcome = 'succeeded')
),
held AS (
  INSERT INTO blocked_job (job_id, blocking_job_id) SELECT * FROM new WHERE job_id NOT IN (SELECT job_id FROM free)
)
INSERT INTO running_job (job_id, attempt, state) SELECT job_id, 1, 'enqueued' FROM free

-- name: enqueue_fifo
-- The first job of an empty FIFO queue can be run at once; the others wait for the jobs before them.
WITH new AS (SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS new (job_id, queue, place)),
first AS (
  INSERT INTO running_job (job_id, attempt, state, queue)
  SELECT job_id, 1, 'enqueued', queue FROM new
  WHERE NOT EXISTS (SELECT FROM queued_job q WHERE q.queue = new.queue)
  ORDER BY place
  ON CONFLICT (queue) DO NOTHING
  RETURNING job_id
)
INSERT INTO queued_job (queue, job_id) SELECT queue, job_id FROM new WHERE job_id NOT IN (SELECT job_id FROM first) ORDER BY place

-- name: load_job
-- Describes many jobs.
COPY job (id, owner_id, kind, max_attempts, timeout, schedule_time, blocking_job_id, queue, arguments) FROM STDIN

-- name: load
-- Many can be run at once.
COPY running_job (job_id, attempt, state) FROM STDIN

-- name: register
-- Registers a worker.
INSERT INTO worker (name) VALUES ($1) RETURNING id

-- name: ping
-- Records that the worker is alive.
UPDATE worker SET last_ping_time = now() WHERE id = $1

-- name: deregister
-- Removes the worker.
DELETE FROM worker WHERE id = $1

-- name: find
-- The first job in the heap that can be run and is not locked. The scan of running_job is a subquery, because in a plain join the planner
-- may begin with the table job, which also has all finished jobs.
SELECT rj.job_id, rj.attempt, j.arguments, j.queue, j.max_attempts
FROM (SELECT job_id, attempt FROM running_job WHERE state = 'enqueued' LIMIT 1 FOR UPDATE SKIP LOCKED) rj
JOIN job j ON j.id = rj.job_id

-- name: find_unlocked
-- The same without a lock.
SELECT rj.job_id, rj.attempt, j.arguments, j.queue, j.max_attempts
FROM (SELECT job_id, attempt FROM running_job WHERE state = 'enqueued' LIMIT 1) rj
JOIN job j ON j.id = rj.job_id

-- name: mark
-- The job is being run.
UPDATE running_job SET state = 'processing', worker_id = $1, start_time = now() WHERE job_id = $2 AND attempt = $3

-- name: remove
-- The attempt is over; no row if the scheduler has taken it from its worker.
DELETE FROM running_job WHERE job_id = $1 AND attempt = $2 RETURNING start_time

-- name: note_end
-- The outcome of the attempt.
INSERT INTO finished_job (job_id, attempt, outcome, start_time, finish_time, result)
VALUES ($1, $2, $3::job_outcome, $4::timestamptz, now(), $5)

-- name: release_blocked
-- The jobs that waited for the job can be run.
WITH free AS (DELETE FROM blocked_job WHERE blocking_job_id = $1 RETURNING job_id)
INSERT INTO running_job (job_id, attempt, state) SELECT job_id, 1, 'enqueued' FROM free

-- name: start_next
-- The next job of the job's FIFO queue can be run.
WITH next AS (
  DELETE FROM queued_job
  WHERE (queue, position) = (SELECT queue, position FROM queued_job WHERE queue = $1 ORDER BY position LIMIT 1)
  RETURNING job_id, queue
)
INSERT INTO running_job (job_id, attempt, state, queue) SELECT job_id, 1, 'enqueued', queue FROM next

-- name: try_again
-- A further attempt, which can be run at once.
INSERT INTO running_job (job_id, attempt, state, queue) VALUES ($1, $2, 'enqueued', $3)

-- name: backlog
-- Runnable and due jobs; the first by id counts as the oldest.
WITH ready AS (
  SELECT job_id FROM running_job WHERE state = 'enqueued'
  UNION ALL
  SELECT job_id FROM scheduled_job WHERE schedule_time <= now()
),
counted AS (SELECT count(*) AS depth, min(job_id) AS job_id FROM ready)
SELECT depth, (SELECT extract(epoch FROM clock_timestamp() - coalesce(schedule_time, create_time))::float8 FROM job WHERE id = counted.job_id)
FROM counted

-- name: any_job
-- Whether there is any job that has not finished.
SELECT EXISTS (SELECT FROM running_job) OR EXISTS (SELECT FROM scheduled_job) OR EXISTS (SELECT FROM blocked_job)
  OR EXISTS (SELECT FROM queued_job)

-- name: job_ids
-- Every job that has not finished, and whether it is being run.
SELECT job_id, state = 'processing' FROM running_job
UNION ALL SELECT job_id, false FROM scheduled_job
UNION ALL SELECT job_id, false FROM blocked_job
UNION ALL SELECT job_id, false FROM queued_job
