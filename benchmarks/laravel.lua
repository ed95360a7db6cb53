-- Laravel's pessimistic claim and completion, as stallbench/queues/laravel.sql has them, for sysbench: one event is one job.
function thread_init()
  con = sysbench.sql.driver():connect()
end

function thread_done()
  con:disconnect()
end

function event()
  local now = os.time()
  con:query("BEGIN")
  local rows = con:query(string.format(
    "SELECT * FROM jobs FORCE INDEX (PRIMARY) WHERE queue = 'default' AND ((reserved_at IS NULL AND available_at <= %d) " ..
    "OR (reserved_at <= %d)) ORDER BY id ASC LIMIT 1 FOR UPDATE", now, now - 90))
  local row = rows:fetch_row()
  if row == nil then
    con:query("COMMIT")
    return
  end
  local id = row[1]
  con:query(string.format("UPDATE jobs SET reserved_at = %d, attempts = attempts + 1 WHERE id = %s", now, id))
  con:query("COMMIT")
  con:query("BEGIN")
  con:query(string.format("SELECT * FROM jobs WHERE id = %s FOR UPDATE", id))
  con:query(string.format("DELETE FROM jobs WHERE id = %s", id))
  con:query("COMMIT")
end
