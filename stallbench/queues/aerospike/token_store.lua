-- The article's user-defined function: reads the token, increments it, writes it and returns the old one, as one operation on its record.
-- If stop_at_end is 1 and no job has the token yet, nothing is written, and it returns 0. Without the record it returns -1.
function take(rec, stop_at_end)
    local token = rec['next_token']
    if token == nil then
        return -1
    end
    if stop_at_end == 1 and token > rec['last_token'] then
        return 0
    end
    rec['next_token'] = token + 1
    aerospike:update(rec)
    return token
end
