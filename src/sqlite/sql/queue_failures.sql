-- queues: outbox inbox timers
-- Failed attempts: those that are retried, those that end a message, and lost leases. queue.sql has
-- the rules. No other statement changes the column failures.

-- name: {queue}_abandon
update {schema}_{queue}
   set lease_until = -9000000000000000000, attempts = attempts + 1, lost_leases = 0, ready_at = ?2,
       last_error = coalesce(?3, last_error)
 where seq = ?1;

-- name: {queue}_fail
update {schema}_{queue}
   set status = 3, processed_at = ?2, attempts = attempts + ?3,
       last_error = coalesce(?4, last_error), owner_token = coalesce(?5, zeroblob(16)),
       lease_until = -9000000000000000000,
       lane = case when stream is null then priority else -101 end
 where seq = ?1
returning id, stream;

-- name: {queue}_fail_step_note
-- Adds an attempt to the failures, before it is charged. ?2: now. ?3: failed, lost_lease or
-- expired. ?4: the error. ?5: the owner; null: the owner of the lost lease. ?6: the charge. A
-- failure without a charge is noted if the message has expired. The last error is in last_error,
-- up to 2,048 bytes; here 512 characters of each are kept.
update {schema}_{queue}
   set failures = json_insert(
         case when json_array_length(failures) >= 10 then json_remove(failures, '$[0]')
              else coalesce(failures, '[]') end,
         '$[#]', json_object(
           'attempt', past_attempts + attempts + ?6, 'at', ?2, 'kind', ?3,
           'error', substr(?4, 1, 512),
           'owner', nullif(lower(hex(case when ?3 = 'lost_lease'
                                          then coalesce(?5, nullif(owner_token, zeroblob(16)))
                                          else ?5 end)), '')))
 where seq = ?1 and (?3 <> 'expired' or expires_at <= ?2);

-- name: {queue}_fail_step_block
update {schema}_{queue}
   set lane = -102, attempts = attempts + ?2, lost_leases = 0, last_error = coalesce(?3, last_error)
 where seq = ?1;

-- name: {queue}_fail_step_block_stream
insert into {schema}_{queue}_stream (stream, blocked_at) values (?1, ?2)
on conflict (stream) do update set blocked_at = excluded.blocked_at;

-- name: {queue}_fail_step_skip_order
update {schema}_{queue}
   set stream = null, lane = priority, lost_leases = 0,
       past_attempts = past_attempts + attempts + ?2, attempts = 0, ready_at = ?4,
       last_error = coalesce(?3, last_error)
 where seq = ?1;

-- name: {queue}_reap_expired_step_release
update {schema}_{queue}
   set lease_until = -9000000000000000000, attempts = attempts + 1,
       lost_leases = min(lost_leases + 1, 1000)
 where seq = ?1;

-- name: {queue}_absolve
update {schema}_{queue} set lost_leases = 0 where id = ?1 and status = 0 and lost_leases > 0;

-- name: {queue}_uncharge
-- The failures lose the lost lease, too.
update {schema}_{queue}
   set lost_leases = lost_leases - 1, attempts = max(attempts - 1, 0),
       failures = case when json_extract(failures, '$[#-1].kind') = 'lost_lease'
                       then nullif(json_remove(failures, '$[#-1]'), '[]') else failures end
 where id = ?1 and status = 0 and lost_leases > 0;
