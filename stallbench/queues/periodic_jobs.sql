-- Periodic jobs: several processes know the schedule, and the leader enqueues. Who leads is a row with an expiry.

-- name: create_leader
-- At most one row for each name.
CREATE TABLE periodic_leader
(
  name       text PRIMARY KEY,
  node       text        NOT NULL,
  expires_at timestamptz NOT NULL
)

-- name: run_for_election
-- Makes this node ($1) the leader for $2 seconds, if there is none or its time is over; returns no row otherwise.
INSERT INTO periodic_leader (name, node, expires_at)
VALUES ('cron', $1, clock_timestamp() + $2::float8 * interval '1 second')
ON CONFLICT (name) DO UPDATE SET node = excluded.node, expires_at = excluded.expires_at
WHERE periodic_leader.expires_at < clock_timestamp()
RETURNING node

-- name: renew_row
-- Extends the time of whoever leads, and returns a row as long as there is a leader: the defect of Oban up to 2.23.0.
UPDATE periodic_leader
SET expires_at = clock_timestamp() + $2::float8 * interval '1 second'
WHERE name = 'cron' AND $1 <> ''
RETURNING node

-- name: renew_own
-- Extends the time of this node; returns no row if another one leads.
UPDATE periodic_leader
SET expires_at = clock_timestamp() + $2::float8 * interval '1 second'
WHERE name = 'cron' AND node = $1
RETURNING node

-- name: is_leader
-- Locks the leader's row until the end of the transaction, if this node leads and its time is not over.
SELECT 1 FROM periodic_leader WHERE name = 'cron' AND node = $1 AND expires_at > clock_timestamp() FOR SHARE
