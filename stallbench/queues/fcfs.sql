-- name: create_table_postgres
-- A job is unprocessed (0), reserved (1) or processed (2); its row is never deleted.
CREATE TABLE fcfs_jobs (
  id bigserial PRIMARY KEY,
  payload text NOT NULL,
  enqueued_at_ms bigint NOT NULL,
  state smallint NOT NULL DEFAULT 0
)

-- name: create_table_mysql
-- The same.
CREATE TABLE fcfs_jobs (
  id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  payload longtext NOT NULL,
  enqueued_at_ms bigint NOT NULL,
  state smallint NOT NULL DEFAULT 0
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4

-- name: insert
-- Adds a job.
INSERT INTO fcfs_jobs (payload, enqueued_at_ms) VALUES (?, ?)

-- name: find_first_unprocessed
-- The first step of a claim: walks along the primary key, from its beginning.
SELECT id, payload FROM fcfs_jobs WHERE state = 0 ORDER BY id LIMIT 1

-- name: reserve
-- The second step; it does not check what has happened in between.
UPDATE fcfs_jobs SET state = 1 WHERE id = ?

-- name: complete
-- The job is done.
UPDATE fcfs_jobs SET state = 2 WHERE id = ?

-- name: release
-- The job failed.
UPDATE fcfs_jobs SET state = 0 WHERE id = ?

-- name: backlog
-- The number of jobs that no worker has reserved, and since when the oldest of them waits.
SELECT count(*), min(enqueued_at_ms) FROM fcfs_jobs WHERE state = 0

-- name: any_job
-- Whether any job is not completed.
SELECT id FROM fcfs_jobs WHERE state < 2 LIMIT 1

-- name: job_ids
-- Every job that is not completed.
SELECT id, state FROM fcfs_jobs WHERE state < 2
