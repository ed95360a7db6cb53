-- Laravel's database queue, as 'Laravel queueing optimization' (2017) quotes it. The same wording runs on MariaDB, MySQL, PostgreSQL and
-- SQLite; {index_hint} and {row_lock} stand for clauses that not every engine has, {attempts_type} for what
-- migrations of different years have.

-- name: create_table_mysql
-- As Laravel 5.5's migration has it.
CREATE TABLE jobs (
  id bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  queue varchar(255) COLLATE utf8mb4_unicode_ci NOT NULL,
  payload longtext COLLATE utf8mb4_unicode_ci NOT NULL,
  attempts {attempts_type} unsigned NOT NULL,
  reserved_at int(10) unsigned DEFAULT NULL,
  available_at int(10) unsigned NOT NULL,
  created_at int(10) unsigned NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB AUTO_INCREMENT=1 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci

-- name: create_table_postgres
-- The result of the same migration on PostgreSQL.
CREATE TABLE jobs (
  id bigserial PRIMARY KEY,
  queue varchar(255) NOT NULL,
  payload text NOT NULL,
  attempts smallint NOT NULL,
  reserved_at integer,
  available_at integer NOT NULL,
  created_at integer NOT NULL
)

-- name: create_table_sqlite
-- The result of the same migration on SQLite.
CREATE TABLE jobs (
  id integer NOT NULL PRIMARY KEY AUTOINCREMENT,
  queue varchar NOT NULL,
  payload text NOT NULL,
  attempts integer NOT NULL,
  reserved_at integer,
  available_at integer NOT NULL,
  created_at integer NOT NULL
)

-- name: index_queue
-- The index of Laravel 5.5.
CREATE INDEX jobs_queue_index ON jobs (queue)

-- name: index_queue_reserved_at
-- The index before Laravel 5.4.
CREATE INDEX jobs_queue_reserved_at_index ON jobs (queue, reserved_at)

-- name: add_delete_mark
-- The article's second mitigation.
ALTER TABLE jobs ADD COLUMN delete_mark smallint NOT NULL DEFAULT 0

-- name: add_version
-- The version that optimistic locking compares.
ALTER TABLE jobs ADD COLUMN version integer NOT NULL DEFAULT 0

-- name: now_postgres
-- The server's time.
SELECT floor(extract(epoch FROM clock_timestamp()))::bigint

-- name: now_mysql
-- The server's time.
SELECT unix_timestamp()

-- name: insert
-- Adds a job that is available at once.
INSERT INTO jobs (queue, payload, attempts, reserved_at, available_at, created_at) VALUES (?, ?, 0, NULL, ?, ?)

-- name: next_jobs
-- The first available jobs: never reserved, or reserved so long ago that the reservation has expired.
SELECT * FROM jobs {index_hint} WHERE queue = ? AND ((reserved_at IS NULL AND available_at <= ?) OR (reserved_at <= ?)) ORDER BY id ASC LIMIT {limit} {row_lock}

-- name: reserve
-- Claims the job that was selected and locked.
UPDATE jobs SET reserved_at = ?, attempts = attempts + 1 WHERE id = ?

-- name: reserve_version
-- Claims the job only if it has not changed since it was read.
UPDATE jobs SET reserved_at = ?, attempts = attempts + 1, version = version + 1 WHERE id = ? AND version = ?

-- name: fetch
-- Laravel executes this before it deletes; the article shows that it is redundant.
SELECT * FROM jobs WHERE id = ? {row_lock}

-- name: delete
-- The job is done.
DELETE FROM jobs WHERE id = ?

-- name: mark
-- The job is done; the next worker that claims it deletes it.
UPDATE jobs SET delete_mark = 1 WHERE id = ?

-- name: release
-- Makes a failed job available again at a later time.
UPDATE jobs SET reserved_at = NULL, available_at = ? WHERE id = ?

-- name: create_failed_jobs
-- Jobs without attempts left. Laravel assigns them new ids; here they keep the id by which the bench identifies them.
CREATE TABLE failed_jobs (id bigint NOT NULL PRIMARY KEY, queue varchar(255) NOT NULL, payload text NOT NULL, exception text NOT NULL)

-- name: move_to_failed_jobs
-- Records a job that will not be retried.
INSERT INTO failed_jobs (id, queue, payload, exception) VALUES (?, ?, ?, ?)

-- name: failed_job_ids
-- Every failed job.
SELECT id FROM failed_jobs

-- name: backlog
-- The number of available jobs, and the time of the oldest.
SELECT count(*), min(available_at) FROM jobs WHERE queue = ? AND {not_done} AND ((reserved_at IS NULL AND available_at <= ?) OR (reserved_at <= ?))

-- name: any_job
-- Whether there is any job left.
SELECT 1 FROM jobs WHERE queue = ? AND {not_done} LIMIT 1

-- name: job_ids
-- Every job of the queue, and when it was reserved.
SELECT id, reserved_at FROM jobs WHERE queue = ? AND {not_done}
