-- Postgrestue's tables: the description of a job, its state apart from it, and a table for each precondition. The statements are
-- run in this order on an empty database.

-- name: job_block
-- Clients choose the ids of their jobs, so that no statement waits for the result of another: each client takes blocks of a thousand ids.
CREATE SEQUENCE job_block

-- name: job
-- The description of a job; written once and never changed. The prototype's ids are UUIDs.
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
-- Workers, from their first claim to their end.
CREATE TABLE worker
(
  id             bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT worker_pkey PRIMARY KEY,
  name           text        NOT NULL,
  register_time  timestamptz NOT NULL DEFAULT now(),
  last_ping_time timestamptz NOT NULL DEFAULT now()
)

-- name: states
-- States of a runnable job.
CREATE TYPE job_state AS ENUM ('enqueued', 'processing')

-- name: outcomes
-- Outcomes of an attempt.
CREATE TYPE job_outcome AS ENUM ('succeeded', 'failed')

-- name: running_job
-- Jobs that can be run, or are being run. Updates change no indexed column, and a share of each page is free for new row versions, so updates are
-- heap-only. Each FIFO queue has at most one row.
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
-- Jobs that wait for their due time.
CREATE TABLE scheduled_job
(
  job_id        bigint      NOT NULL CONSTRAINT scheduled_job_pkey PRIMARY KEY REFERENCES job,
  schedule_time timestamptz NOT NULL
)

-- name: scheduled_job_by_time
-- For the scheduler, to find due jobs.
CREATE INDEX scheduled_job_schedule_time ON scheduled_job (schedule_time)

-- name: blocked_job
-- Jobs that wait for another job's success.
CREATE TABLE blocked_job
(
  job_id          bigint NOT NULL CONSTRAINT blocked_job_pkey PRIMARY KEY REFERENCES job,
  blocking_job_id bigint NOT NULL REFERENCES job,
  CHECK (job_id <> blocking_job_id)
)

-- name: blocked_job_by_blocker
-- For a completion, to find the jobs that it releases.
CREATE INDEX blocked_job_blocking_job_id ON blocked_job (blocking_job_id)

-- name: queued_job
-- Jobs that wait for the jobs before them in their FIFO queue.
CREATE TABLE queued_job
(
  queue    text   NOT NULL,
  position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  job_id   bigint NOT NULL UNIQUE REFERENCES job,
  CONSTRAINT queued_job_pkey PRIMARY KEY (queue, position)
)

-- name: finished_job
-- Finished attempts, partitioned by outcome and then by day, so that a day of successes can be dropped as a table.
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
-- To find whether a job has finished.
CREATE INDEX finished_job_job_id ON finished_job (job_id)

-- name: finished_job_partitions
-- For each outcome, a partition for each day from yesterday to the day after tomorrow, and one for all other days.
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
