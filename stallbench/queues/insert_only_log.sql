-- A log into which rows are only inserted: a completion is another row, and old rows are dropped with their partition.
-- Ids commit in their order, because appends wait for each other. So a session that sees an id sees all smaller ones.

-- name: install
-- Entries in the order in which they were appended; an entry is a new job, or a failed job that is to be re-executed.
CREATE TABLE log_entries
(
  entry_id    bigint      NOT NULL,
  job_id      bigint      NOT NULL,
  attempts    integer     NOT NULL DEFAULT 0,
  appended_at timestamptz NOT NULL DEFAULT now(),
  last_error  text,
  payload     json        NOT NULL,
  CONSTRAINT log_entries_pkey PRIMARY KEY (entry_id)
)
PARTITION BY RANGE (entry_id)

-- name: install_ids
-- Positions in the log.
CREATE SEQUENCE log_entry_ids

-- name: install_ranges
-- The ranges that were given out. The consumer that inserted a range and holds the advisory lock of its first entry executes it.
CREATE TABLE log_ranges
(
  first_entry bigint NOT NULL,
  last_entry  bigint NOT NULL,
  CONSTRAINT log_ranges_pkey PRIMARY KEY (first_entry)
)
PARTITION BY RANGE (first_entry)

-- name: install_positions
-- How far a consumer has executed its range: the greatest position is its cursor.
CREATE TABLE log_positions
(
  entry_id bigint NOT NULL,
  CONSTRAINT log_positions_pkey PRIMARY KEY (entry_id)
)
PARTITION BY RANGE (entry_id)

-- name: install_claim
-- Gives out the rest of a dead consumer's range, or else the next entries as a new range. "known": all ranges before it are finished.
-- It is a function, so that one round trip is enough and each of its statements sees what was committed before.
CREATE FUNCTION log_claim(wanted integer, known bigint)
RETURNS TABLE (unfinished bigint, first_entry bigint, last_entry bigint, entry_id bigint, job_id bigint, attempts integer, payload json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  range_first bigint;
  range_last  bigint;
  handed_out  bigint;
  oldest      bigint;
  candidate   record;
BEGIN
  PERFORM pg_advisory_xact_lock(7010, 1);
  FOR candidate IN
    SELECT r.first_entry, r.last_entry FROM log_ranges r
    WHERE r.first_entry >= known AND NOT EXISTS (SELECT FROM log_positions p WHERE p.entry_id = r.last_entry)
    ORDER BY r.first_entry
  LOOP
    oldest := coalesce(oldest, candidate.first_entry);
    CONTINUE WHEN NOT pg_try_advisory_lock(candidate.first_entry);
    IF EXISTS (SELECT FROM log_positions p WHERE p.entry_id = candidate.last_entry) THEN
      PERFORM pg_advisory_unlock(candidate.first_entry);
    ELSE
      range_first := candidate.first_entry;
      range_last := candidate.last_entry;
      EXIT;
    END IF;
  END LOOP;
  IF range_first IS NULL THEN
    SELECT r.last_entry INTO handed_out FROM log_ranges r ORDER BY r.first_entry DESC LIMIT 1;
    SELECT min(e.entry_id), max(e.entry_id) INTO range_first, range_last
    FROM (
      SELECT l.entry_id FROM log_entries l WHERE l.entry_id > coalesce(handed_out, 0) ORDER BY l.entry_id LIMIT wanted
    ) e;
    IF range_first IS NULL THEN
      RETURN;
    END IF;
    PERFORM pg_advisory_lock(range_first);
    INSERT INTO log_ranges VALUES (range_first, range_last);
  END IF;
  RETURN QUERY
    SELECT coalesce(oldest, range_first), range_first, range_last, e.entry_id, e.job_id, e.attempts, e.payload
    FROM log_entries e
    WHERE e.entry_id BETWEEN range_first AND range_last
    AND NOT EXISTS (SELECT FROM log_positions p WHERE p.entry_id = e.entry_id)
    ORDER BY e.entry_id;
END
$$

-- name: install_partition
-- Adds the partition from "since" on to all three tables, if it does not exist. Attaching blocks no other session.
CREATE FUNCTION log_add_partition(since bigint, entries bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  parent text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['log_entries', 'log_ranges', 'log_positions'] LOOP
    CONTINUE WHEN to_regclass(format('%s_%s', parent, since)) IS NOT NULL;
    EXECUTE format('CREATE TABLE %1$s_%2$s (LIKE %1$s INCLUDING ALL)', parent, since);
    EXECUTE format('ALTER TABLE %1$s ATTACH PARTITION %1$s_%2$s FOR VALUES FROM (%2$s) TO (%3$s)', parent, since, since + entries);
  END LOOP;
END
$$

-- name: install_drop
-- Drops the partition from "since" on. Waits at most a tenth of a second for other users of the tables, because all other sessions wait behind it.
CREATE FUNCTION log_drop_partition(since bigint) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
  EXECUTE format('DROP TABLE log_positions_%1$s, log_ranges_%1$s, log_entries_%1$s', since);
END
$$

-- name: add_partition
-- See install_partition.
SELECT log_add_partition($1::bigint, $2::bigint)

-- name: drop_partition
-- See install_drop.
SELECT log_drop_partition($1::bigint)

-- name: last_place
-- The last assigned id.
SELECT last_value FROM log_entry_ids

-- name: partitions
-- Where each partition begins.
SELECT substring(inhrelid::regclass::text FROM '\d+$')::bigint AS since
FROM pg_inherits
WHERE inhparent = 'log_entries'::regclass
ORDER BY since

-- name: finished_before
-- All ranges that begin before this entry are finished, and no other will begin there.
SELECT coalesce(
  (
    SELECT min(r.first_entry) FROM log_ranges r
    WHERE NOT EXISTS (SELECT FROM log_positions p WHERE p.entry_id = r.last_entry)
  ),
  (SELECT r.last_entry + 1 FROM log_ranges r ORDER BY r.first_entry DESC LIMIT 1),
  0
)

-- name: append
-- Adds one job to the end. Appends are serialised: an id that becomes visible after a greater one would be skipped.
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(7010, 2)),
place AS MATERIALIZED (SELECT nextval('log_entry_ids') AS entry_id FROM turn)
INSERT INTO log_entries (entry_id, job_id, payload)
SELECT entry_id, entry_id, $1::json FROM place
RETURNING job_id

-- name: wait_for_turn
-- Blocks other appends until the transaction ends.
SELECT pg_advisory_xact_lock(7010, 2)

-- name: take_ids
-- Returns the wanted number of new positions.
SELECT nextval('log_entry_ids') FROM generate_series(1, $1::bigint)

-- name: load
-- Adds many jobs.
COPY log_entries (entry_id, job_id, payload) FROM STDIN

-- name: claim
-- See install_claim.
SELECT unfinished, first_entry, last_entry, entry_id, job_id, attempts, payload FROM log_claim($1::integer, $2::bigint)

-- name: move
-- Moves the cursor past an entry.
INSERT INTO log_positions (entry_id) VALUES ($1::bigint) ON CONFLICT DO NOTHING

-- name: reappend
-- Moves the cursor past an entry that failed, and adds it to the end.
WITH moved AS (INSERT INTO log_positions (entry_id) VALUES ($2::bigint) RETURNING entry_id),
turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(7010, 2)),
place AS MATERIALIZED (SELECT nextval('log_entry_ids') AS entry_id FROM turn)
INSERT INTO log_entries (entry_id, job_id, attempts, last_error, payload)
SELECT place.entry_id, e.job_id, e.attempts + 1, $1::text, e.payload
FROM place, log_entries e JOIN moved USING (entry_id)

-- name: release_range
-- Releases the lock of a range.
SELECT pg_advisory_unlock($1::bigint)

-- name: backlog
-- Jobs that were not given out yet, and the rest of the ranges of dead consumers.
WITH held AS MATERIALIZED (
  SELECT (classid::bigint << 32) | objid::bigint AS first_entry FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
),
left_over AS MATERIALIZED (
  SELECT r.first_entry, r.last_entry FROM log_ranges r
  WHERE NOT EXISTS (SELECT FROM log_positions p WHERE p.entry_id = r.last_entry)
  AND r.first_entry NOT IN (SELECT first_entry FROM held)
),
waiting AS (
  SELECT appended_at FROM log_entries
  WHERE entry_id > coalesce((SELECT r.last_entry FROM log_ranges r ORDER BY r.first_entry DESC LIMIT 1), 0)
  UNION ALL
  SELECT e.appended_at FROM left_over o JOIN log_entries e ON e.entry_id BETWEEN o.first_entry AND o.last_entry
  WHERE NOT EXISTS (SELECT FROM log_positions p WHERE p.entry_id = e.entry_id)
)
SELECT count(*), extract(epoch FROM clock_timestamp() - min(appended_at))::float8 FROM waiting

-- name: job_ids
-- Every job that no cursor has passed, and whether a living consumer has its range.
SELECT e.job_id, EXISTS (
  SELECT FROM log_ranges r
  WHERE e.entry_id BETWEEN r.first_entry AND r.last_entry
  AND r.first_entry IN (
    SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
  )
)
FROM log_entries e
WHERE NOT EXISTS (SELECT FROM log_positions p WHERE p.entry_id = e.entry_id)
