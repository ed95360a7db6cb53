-- Postgrestue's tables: what a job is, apart from how far it has come; and a table for each thing that it may wait for. One statement after the
-- other is run on an empty database, in the order in which they stand here.

-- name: job_block
-- Clients choose the ids of their jobs themselves, so that no statement waits for another's answer: each takes a block of a thousand at a time.
CREATE SEQUENCE job_block

-- name: job
-- What a job is; written once and never changed. The prototype's ids are UUIDs.
CREATE TABLE job
(
  id              bigint      NOT NULL CONSTRAINT job_pkey PRIMARY KEY,
  owner_id        text        NOT NULL,
  kind            text        NOT NULL,
  max_attempts    smallint    NOT NULL CHECK (max_attempts > 0),
  timeout         interval    NOT NULL,
  create_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
  schedule_time   timestamptz,
  blocking_job_id bigint REFERENCES job,
  queue           text,
  arguments       json        NOT NULL,
  CHECK (num_nonnulls(schedule_time, blocking_job_id, queue) <= 1)
)

-- name: worker
-- Who works: there from a worker's first claim to its end.
CREATE TABLE worker
(
  id             bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT worker_pkey PRIMARY KEY,
  name           text        NOT NULL,
  register_time  timestamptz NOT NULL DEFAULT now(),
  last_ping_time timestamptz NOT NULL DEFAULT now()
)

-- name: states
-- Those of a job that can be run.
CREATE TYPE job_state AS ENUM ('enqueued', 'processing')

-- name: outcomes
-- Those of an attempt.
CREATE TYPE job_outcome AS ENUM ('succeeded', 'failed')

-- name: running_job
-- What can be run, or is being run. Nothing that an update changes is indexed, and a share of each page is left free for the new versions of its
-- rows, so that updates are heap-only. No queue has two rows.
CREATE TABLE running_job
(
  job_id     bigint    NOT NULL REFERENCES job,
  attempt    smallint  NOT NULL CHECK (attempt > 0),
  state      job_state NOT NULL,
  worker_id  bigint,
  start_time timestamptz,
  queue      text CONSTRAINT running_job_queue_key UNIQUE,
  CONSTRAINT running_job_pkey PRIMARY KEY (job_id, attempt),
  CHECK (state = 'enqueued' OR (worker_id IS NOT NULL AND start_time IS NOT NULL))
) WITH (fillfactor = {fillfactor})

-- name: scheduled_job
-- What waits for a time.
CREATE TABLE scheduled_job
(
  job_id        bigint      NOT NULL CONSTRAINT scheduled_job_pkey PRIMARY KEY REFERENCES job,
  schedule_time timestamptz NOT NULL
)

-- name: scheduled_job_by_time
-- How the scheduler finds what is due.
CREATE INDEX scheduled_job_schedule_time ON scheduled_job (schedule_time)

-- name: blocked_job
-- What waits for another job's success.
CREATE TABLE blocked_job
(
  job_id          bigint NOT NULL CONSTRAINT blocked_job_pkey PRIMARY KEY REFERENCES job,
  blocking_job_id bigint NOT NULL REFERENCES job,
  CHECK (job_id <> blocking_job_id)
)

-- name: blocked_job_by_blocker
-- How a completion finds what it sets free.
CREATE INDEX blocked_job_blocking_job_id ON blocked_job (blocking_job_id)

-- name: queued_job
-- What waits for the jobs before it in its FIFO queue.
CREATE TABLE queued_job
(
  queue    text   NOT NULL,
  position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  job_id   bigint NOT NULL UNIQUE REFERENCES job,
  CONSTRAINT queued_job_pkey PRIMARY KEY (queue, position)
)

-- name: finished_job
-- An attempt that is over. By outcome, and then by day, so that a day of successes can be dropped as a table.
CREATE TABLE finished_job
(
  job_id      bigint      NOT NULL REFERENCES job,
  attempt     smallint    NOT NULL CHECK (attempt > 0),
  outcome     job_outcome NOT NULL,
  start_time  timestamptz NOT NULL,
  finish_time timestamptz NOT NULL,
  result      text
) PARTITION BY LIST (outcome)

-- name: finished_job_by_job
-- How it is found whether a job has finished.
CREATE INDEX finished_job_job_id ON finished_job (job_id)

-- name: finished_job_partitions
-- Of each outcome, yesterday to the day after tomorrow, and a partition for every other day.
DO $$
DECLARE
  outcome text;
  day     date;
BEGIN
  FOREACH outcome IN ARRAY ARRAY['succeeded', 'failed'] LOOP
    EXECUTE format('CREATE TABLE finished_job_%s PARTITION OF finished_job FOR VALUES IN (%L) PARTITION BY RANGE (finish_time)', outcome, outcome);
    EXECUTE format('CREATE TABLE finished_job_%s_other PARTITION OF finished_job_%s DEFAULT', outcome, outcome);
    FOR day IN SELECT current_date + n FROM generate_series(-1, 2) AS n LOOP
      EXECUTE format(
        'CREATE TABLE finished_job_%s_%s PARTITION OF finished_job_%s FOR VALUES FROM (%L) TO (%L)',
        outcome, to_char(day, 'YYYYMMDD'), outcome, day::timestamptz, (day + 1)::timestamptz
      );
    END LOOP;
  END LOOP;
END
$$
