-- Three tables in rotation, as PgQ's event tables: an empty one is TRUNCATEd, which removes dead rows regardless of the horizon.
-- {slot}: 0, 1 or 2, the table that a statement is about; {next}: the one after it.

-- name: install_jobs
-- One partition for each slot; the sequence provides ids for all of them.
CREATE TABLE rotating_jobs
(
  slot        integer     NOT NULL,
  job_id      bigserial   NOT NULL,
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  run_at      timestamptz NOT NULL DEFAULT now(),
  attempts    integer     NOT NULL DEFAULT 0,
  last_error  text,
  payload     json        NOT NULL
)
PARTITION BY LIST (slot)

-- name: install_slot
-- Jobs of a slot are executed in the order of their ids.
CREATE TABLE rotating_jobs_{slot} PARTITION OF rotating_jobs (CONSTRAINT rotating_jobs_{slot}_pkey PRIMARY KEY (job_id)) FOR VALUES IN ({slot})

-- name: install_turn
-- The slot from which workers claim first, and the slot that takes new jobs.
CREATE TABLE rotating_turn (head integer NOT NULL, tail integer NOT NULL, rotated_at timestamptz NOT NULL DEFAULT now())

-- name: install_first_turn
-- Both begin at the first slot.
INSERT INTO rotating_turn (head, tail) VALUES (0, 0)

-- name: enqueue
-- Adds one job to the current slot.
INSERT INTO rotating_jobs (slot, payload) VALUES ((SELECT tail FROM rotating_turn), $1::json) RETURNING job_id

-- name: take_ids
-- Ids for jobs that are copied into a table.
SELECT nextval(pg_get_serial_sequence('rotating_jobs', 'job_id')) FROM generate_series(1, $1::bigint)

-- name: hold_turn
-- The current slot, locked until the transaction ends.
SELECT tail FROM rotating_turn FOR SHARE

-- name: load
-- Adds many jobs.
COPY rotating_jobs (slot, job_id, payload) FROM STDIN

-- name: turn
-- Reads the current slots.
SELECT head, tail FROM rotating_turn

-- name: begin
-- Begins the transaction of a claim, or of emptying a slot.
BEGIN

-- name: commit
-- Commits.
COMMIT

-- name: rollback
-- Rolls back.
ROLLBACK

-- name: claim
-- Locks the first job of a slot that nobody else has locked.
SELECT job_id, attempts, payload
FROM rotating_jobs_{slot}
WHERE run_at <= now()
ORDER BY job_id
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: complete
-- Deletes a job that is locked.
DELETE FROM rotating_jobs_{slot} WHERE job_id = $1

-- name: fail
-- Delays the job by a second for each attempt, in the slot that takes new jobs, so that its old slot can be emptied.
UPDATE rotating_jobs
SET slot = (SELECT tail FROM rotating_turn),
    attempts = attempts + 1, last_error = $1, run_at = now() + (attempts + 1) * interval '1 second'
WHERE slot = {slot} AND job_id = $2

-- name: rotate
-- Makes the next slot take new jobs, $1 milliseconds after the last rotation, unless that slot still has jobs.
UPDATE rotating_turn
SET tail = {next}, rotated_at = now()
WHERE tail = {slot} AND head <> {next} AND rotated_at <= now() - $1::integer * interval '1 millisecond'

-- name: lock_slot
-- Locks the slot exclusively if it is unused; does not wait for open transactions of workers or producers.
LOCK TABLE rotating_jobs_{slot} IN ACCESS EXCLUSIVE MODE NOWAIT

-- name: pass_on
-- Makes the next slot the first to claim from, if this one is empty and takes no new jobs.
UPDATE rotating_turn
SET head = {next}
WHERE head = {slot} AND tail <> {slot} AND NOT EXISTS (SELECT FROM rotating_jobs_{slot})

-- name: empty_slot
-- Empties the table, including rows that an older transaction could still see.
TRUNCATE rotating_jobs_{slot}

-- name: backlog
-- Due jobs that no open transaction has locked.
SELECT count(*), extract(epoch FROM now() - min(run_at))::float8
FROM rotating_jobs
WHERE run_at <= now()
AND xmax NOT IN (SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL)

-- name: job_ids
-- Every job of the tables, and whether an open transaction has locked it.
SELECT job_id, xmax IN (SELECT backend_xid FROM pg_stat_activity WHERE backend_xid IS NOT NULL)
FROM rotating_jobs
