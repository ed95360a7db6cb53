-- name: create_jobs_postgres
-- The jobs, each with its token.
CREATE TABLE token_store_jobs (
  id bigserial PRIMARY KEY,
  token bigint NOT NULL,
  payload text NOT NULL,
  enqueued_at_ms bigint NOT NULL
)

-- name: create_jobs_mysql
-- The same.
CREATE TABLE token_store_jobs (
  id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  token bigint NOT NULL,
  payload longtext NOT NULL,
  enqueued_at_ms bigint NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4

-- name: create_index
-- A job is found by its token.
CREATE UNIQUE INDEX token_store_jobs_token ON token_store_jobs (token)

-- name: create_counter
-- One row: the token of the next job to be processed, and the last token that a job has.
CREATE TABLE token_store (id smallint NOT NULL PRIMARY KEY, next_token bigint NOT NULL, last_token bigint NOT NULL)

-- name: begin_counting
-- Initially there is no job, and the next token is the first.
INSERT INTO token_store (id, next_token, last_token) VALUES (1, 1, 0)

-- name: number
-- Adds so many tokens; until the commit, its lock on the row makes other enqueues wait.
UPDATE token_store SET last_token = last_token + ? WHERE id = 1

-- name: last_token
-- The last of them, in the same transaction.
SELECT last_token FROM token_store WHERE id = 1

-- name: insert
-- Adds a job.
INSERT INTO token_store_jobs (token, payload, enqueued_at_ms) VALUES (?, ?, ?)

-- name: take_postgres
-- Read, increment, write, and return the old value, in one statement.
UPDATE token_store SET next_token = next_token + 1 WHERE id = 1 AND {there_is_one} RETURNING next_token - 1

-- name: take_mysql
-- The same; the connection remembers the old value, as in the manual's example of an atomic counter.
UPDATE token_store SET next_token = LAST_INSERT_ID(next_token) + 1 WHERE id = 1 AND {there_is_one}

-- name: taken_mysql
-- The old value.
SELECT LAST_INSERT_ID()

-- name: fetch
-- The job that has a token.
SELECT id, payload FROM token_store_jobs WHERE token = ?

-- name: complete
-- The job is done.
DELETE FROM token_store_jobs WHERE token = ?

-- name: release
-- The job failed, and gets a token at the end.
UPDATE token_store_jobs SET token = ? WHERE token = ?

-- name: backlog
-- The number of tokens that no worker has taken, and when the job of the next one was enqueued.
SELECT counter.last_token - counter.next_token + 1, job.enqueued_at_ms
FROM token_store AS counter LEFT JOIN token_store_jobs AS job ON job.token = counter.next_token

-- name: any_job
-- Whether any job is left.
SELECT id FROM token_store_jobs LIMIT 1

-- name: job_ids
-- Every job that is left, and whether its token was taken.
SELECT job.id, CASE WHEN job.token < counter.next_token THEN 1 ELSE 0 END
FROM token_store_jobs AS job CROSS JOIN token_store AS counter
