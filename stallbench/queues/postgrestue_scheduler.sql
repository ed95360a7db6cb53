-- One iteration of Postgrestue's scheduler. Each statement is a transaction.

-- name: move_due
-- Scheduled jobs that are due can be run.
WITH due AS (DELETE FROM scheduled_job WHERE schedule_time <= now() RETURNING job_id)
INSERT INTO running_job (job_id, attempt, state) SELECT job_id, 1, 'enqueued' FROM due

-- name: release_blocked_late
-- Jobs blocked by a job that finished at the same moment: neither transaction saw the other.
WITH free AS (
  DELETE FROM blocked_job b
  WHERE EXISTS (SELECT FROM finished_job f WHERE f.job_id = b.blocking_job_id AND f.outcome = 'succeeded')
  RETURNING job_id
)
INSERT INTO running_job (job_id, attempt, state) SELECT job_id, 1, 'enqueued' FROM free

-- name: start_stranded
-- The same in a FIFO queue: its last job finished while this one was being enqueued behind it. Also the job behind one that has failed for good.
WITH stranded AS (
  SELECT DISTINCT ON (q.queue) q.queue, q.position FROM queued_job q
  WHERE NOT EXISTS (SELECT FROM running_job r WHERE r.queue = q.queue)
  ORDER BY q.queue, q.position
),
next AS (
  DELETE FROM queued_job q USING stranded s WHERE q.queue = s.queue AND q.position = s.position RETURNING q.job_id, q.queue
)
INSERT INTO running_job (job_id, attempt, state, queue) SELECT job_id, 1, 'enqueued', queue FROM next

-- name: rescue_from_silent
-- Jobs of workers that have not pinged for so many seconds, or no longer exist: the attempt has failed, and another can be run if one is left.
WITH taken AS (
  SELECT rj.job_id, rj.attempt, rj.start_time, rj.queue, j.max_attempts
  FROM running_job rj
  JOIN job j ON j.id = rj.job_id
  LEFT JOIN worker w ON w.id = rj.worker_id
  WHERE rj.state = 'processing' AND (w.id IS NULL OR w.last_ping_time < now() - make_interval(secs => $1::float8))
  FOR UPDATE OF rj SKIP LOCKED
),
ended AS (
  DELETE FROM running_job r USING taken t WHERE r.job_id = t.job_id AND r.attempt = t.attempt RETURNING t.*
),
noted AS (
  INSERT INTO finished_job (job_id, attempt, outcome, start_time, finish_time, result)
  SELECT job_id, attempt, 'failed', start_time, now(), 'nothing was heard of its worker' FROM ended
)
INSERT INTO running_job (job_id, attempt, state, queue)
SELECT job_id, attempt + 1, 'enqueued', queue FROM ended WHERE attempt < max_attempts

-- name: rescue_overdue
-- The same for jobs that have been run for longer than their time limit.
WITH taken AS (
  SELECT rj.job_id, rj.attempt, rj.start_time, rj.queue, j.max_attempts
  FROM running_job rj
  JOIN job j ON j.id = rj.job_id
  WHERE rj.state = 'processing' AND rj.start_time + j.timeout < now()
  FOR UPDATE OF rj SKIP LOCKED
),
ended AS (
  DELETE FROM running_job r USING taken t WHERE r.job_id = t.job_id AND r.attempt = t.attempt RETURNING t.*
),
noted AS (
  INSERT INTO finished_job (job_id, attempt, outcome, start_time, finish_time, result)
  SELECT job_id, attempt, 'failed', start_time, now(), 'its time limit was over' FROM ended
)
INSERT INTO running_job (job_id, attempt, state, queue)
SELECT job_id, attempt + 1, 'enqueued', queue FROM ended WHERE attempt < max_attempts

-- name: forget_silent
-- Removes dead workers.
DELETE FROM worker WHERE last_ping_time < now() - make_interval(secs => $1::float8)
