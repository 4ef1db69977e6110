-- queues: outbox inbox timers
-- Messages of a queue, for each of the queues above. Times are microseconds since 1970. The store
-- binds the current time. A block named <statement>_step_<name> is a step of that statement.
--
-- Statements that write many rows use `or fail`. Without it, SQLite copies every page that such a
-- statement changes to a file, so that it can undo this statement alone if a constraint fails. The
-- values were checked before. If a constraint failed nevertheless, our transaction is rolled back,
-- and a caller's transaction is marked as failed.

-- name: {queue}_enqueue
-- Stores nothing if the id or the unique key exists.
insert into {schema}_{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at,
                              headers, expires_at, lane, priority, unique_key, stream)
values (?1, ?2, ?3, ?4, ?5, max(coalesce(?5, ?10), ?10), ?10, ?6, ?7,
        case when ?11 is null then ?8
             when exists (select 1 from {schema}_{queue}
                           where stream = ?11 and status = 0) then -101
             else ?8 + 20 end,
        ?8, ?9, ?11)
on conflict do nothing;

-- name: {queue}_enqueue_step_existing
-- The existing message.
select id from {schema}_{queue} where id = ?1
union all
select id from {schema}_{queue} where unique_key = ?2 and status = 0
 limit 1;

-- name: {queue}_enqueue_many
-- For messages with ids that were generated for this call, without unique keys: no conflict is
-- possible.
insert into {schema}_{queue} (id, topic, payload, correlation_id, due_at, ready_at, created_at,
                              headers, expires_at, lane, priority)
values (?2, ?3, ?4, ?5, ?6, max(coalesce(?6, ?1), ?1), ?1, ?7, ?8, ?9, ?9);

-- name: {queue}_enqueue_many_step_eight
-- The same for eight messages. Starting and ending a statement is a third of the cost of one row.
insert or fail into {schema}_{queue} (id, topic, payload, correlation_id, due_at, ready_at,
                                      created_at, headers, expires_at, lane, priority)
values (?2, ?3, ?4, ?5, ?6, max(coalesce(?6, ?1), ?1), ?1, ?7, ?8, ?9, ?9),
       (?10, ?11, ?12, ?13, ?14, max(coalesce(?14, ?1), ?1), ?1, ?15, ?16, ?17, ?17),
       (?18, ?19, ?20, ?21, ?22, max(coalesce(?22, ?1), ?1), ?1, ?23, ?24, ?25, ?25),
       (?26, ?27, ?28, ?29, ?30, max(coalesce(?30, ?1), ?1), ?1, ?31, ?32, ?33, ?33),
       (?34, ?35, ?36, ?37, ?38, max(coalesce(?38, ?1), ?1), ?1, ?39, ?40, ?41, ?41),
       (?42, ?43, ?44, ?45, ?46, max(coalesce(?46, ?1), ?1), ?1, ?47, ?48, ?49, ?49),
       (?50, ?51, ?52, ?53, ?54, max(coalesce(?54, ?1), ?1), ?1, ?55, ?56, ?57, ?57),
       (?58, ?59, ?60, ?61, ?62, max(coalesce(?62, ?1), ?1), ?1, ?63, ?64, ?65, ?65);

-- name: {queue}_claim
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer
-- returns: lease_until time
-- returns: ready_at time, lost_leases integer, row_at integer, cut boolean, stages integer
-- The due messages of one lane that are not leased, from a mark on. The store decides which of them
-- it claims. Messages of topics that the claim does not take have no payload, so that SQLite does
-- not read it. ?5 is one topic that the claim takes; null: it takes all. ?6 has more topics as a
-- JSON array; with ?7, the claim takes all topics except those.
select id, topic,
       case when ?5 is null or topic = ?5 then payload
            when ?6 is not null and (topic in (select value from json_each(?6))) <> ?7
              then payload end as payload,
       correlation_id, headers, created_at, due_at, expires_at, priority, attempts, claim_epoch,
       lease_until, ready_at, lost_leases, seq as row_at, 0 as cut, stages
  from {schema}_{queue}
 where status = 0 and lane = ?1 and ready_at <= ?2 and ready_at >= ?3
   and (ready_at > ?3 or seq > ?4)
   and lease_until <= ?2
 order by ready_at, seq;

-- name: {queue}_claim_step_bound
-- returns: ready_at time, row_at integer
-- The place of the ?5-th message. Only the index is read.
select ready_at, seq as row_at from {schema}_{queue}
 where status = 0 and lane = ?1 and ready_at <= ?2 and ready_at >= ?3
   and (ready_at > ?3 or seq > ?4)
 order by ready_at, seq limit 1 offset ?5;

-- name: {queue}_claim_step_bound_of_row
select ready_at from {schema}_{queue} where seq = ?1 and lane = ?2 and status = 0;

-- name: {queue}_claim_step_leap
-- returns: row_at integer, ready_at time
-- Searches many messages, up to the bound ?2, ?5. ?8 to ?15 are the topics. The lease is tested
-- last: it is not in the index.
select seq as row_at, ready_at from {schema}_{queue}
 where status = 0 and lane = ?1 and ready_at <= ?2 and ready_at >= ?3
   and topic in (?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
   and (ready_at > ?3 or seq > ?4) and (ready_at < ?2 or seq <= ?5)
   and lease_until <= ?6
 order by ready_at, seq limit ?7;

-- name: {queue}_claim_step_leap_by_list
-- returns: as {queue}_claim_step_leap
-- The same for any number of topics, which takes twice as long. ?8 has them as a JSON array; with
-- ?9, all topics except those.
select seq as row_at, ready_at from {schema}_{queue}
 where status = 0 and lane = ?1 and ready_at <= ?2 and ready_at >= ?3
   and (topic in (select value from json_each(?8))) <> ?9
   and (ready_at > ?3 or seq > ?4) and (ready_at < ?2 or seq <= ?5)
   and lease_until <= ?6
 order by ready_at, seq limit ?7;

-- name: {queue}_claim_step_rows
-- returns: as {queue}_claim
-- Consecutive rows that the leap has found.
select id, topic, payload, correlation_id, headers, created_at, due_at, expires_at, priority,
       attempts, claim_epoch, lease_until, ready_at, lost_leases, seq as row_at, 0 as cut, stages
  from {schema}_{queue} where seq between ?1 and ?2 order by seq;

-- name: {queue}_claim_step_lease
-- Leases consecutive rows. Messages that are enqueued together are usually claimed together, and
-- starting and ending a statement is most of the cost of one row.
update or fail {schema}_{queue} 
   set owner_token = ?1, claim_epoch = claim_epoch + 1, lease_until = ?2
 where seq between ?3 and ?4;

-- name: {queue}_claim_step_next_lane
select max(lane) from {schema}_{queue} where status = 0 and lane < ?1 and lane > -100;

-- name: {queue}_claim_step_park
update {schema}_{queue} set lane = -100 where seq = ?1;

-- name: {queue}_claim_streams
-- returns: id uuid, topic text, payload text, correlation_id text, headers text, created_at time
-- returns: due_at time
-- returns: expires_at time, priority integer, attempts integer, claim_epoch integer
-- returns: lease_until time
-- returns: ready_at time, lost_leases integer, cut boolean, stream text, seq integer
-- returns: stages integer
-- The first messages of one stream. The store decides how many of them it leases.
select id, topic, payload, correlation_id, headers, created_at, due_at, expires_at, priority,
       attempts, claim_epoch, lease_until, ready_at, lost_leases, 0 as cut, stream, seq, stages
  from {schema}_{queue} where stream = ?1 and status = 0 order by seq limit ?2;

-- name: {queue}_claim_streams_step_tickets
-- returns: seq integer, topic text, stream text, ready_at time
select seq, topic, stream, ready_at from {schema}_{queue}
 where status = 0 and lane = ?1 and ready_at <= ?2 order by ready_at, seq;

-- name: {queue}_claim_streams_step_held
-- The streams that an owner has.
select stream from {schema}_{queue}_stream where lease_until > ?2 and owner_token = ?1;

-- name: {queue}_claim_streams_step_epoch
update {schema}_{queue}_stream_epoch set epoch = epoch + 1 returning epoch;

-- name: {queue}_claim_streams_step_lease
insert into {schema}_{queue}_stream (stream, epoch, run_to, unsettled, lease_until, owner_token,
                                     lease)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (stream) do update
   set epoch = excluded.epoch, lease = excluded.lease, run_to = excluded.run_to,
       unsettled = excluded.unsettled, lease_until = excluded.lease_until,
       owner_token = excluded.owner_token;

-- name: {queue}_claim_streams_step_lane
update {schema}_{queue} set lane = ?2 where seq = ?1;

-- name: {queue}_claim_streams_step_expired
-- returns: stream text, unsettled integer, owner_token uuid, head integer
-- head: the row of the first message of the stream.
select s.stream, s.unsettled, s.owner_token,
       (select min(seq) from {schema}_{queue} where stream = s.stream and status = 0) as head
  from {schema}_{queue}_stream as s
 where s.lease_until > 0 and s.lease_until <= ?1 order by s.lease_until limit ?2;

-- name: {queue}_claim_streams_step_charge
-- The first message of a stream: its worker was handling that one, or one of the next.
update {schema}_{queue} set attempts = attempts + 1, lost_leases = min(lost_leases + 1, 1000)
 where seq = ?1;

-- name: {queue}_claim_streams_step_next_due
-- returns: due_in integer, has_streams integer
with lanes(lane) as (values (15), (16), (17), (18), (19), (20), (21), (22), (23), (24), (25))
select min(coalesce(min((select min(ready_at) from {schema}_{queue}
                          where status = 0 and lane = lanes.lane and ready_at > ?1)),
                          ?1 + 86400000000), coalesce((select min(lease_until)
                                                         from {schema}_{queue}_stream
                                                           where lease_until > 0),
                                                           ?1 + 86400000000)) - ?1 as due_in,
                                                           exists (select 1 from {schema}_{queue}
                                                                    where status = 0 and lane >= 15)
         or exists (select 1 from {schema}_{queue}_stream where lease_until > 0) as has_streams
  from lanes;

-- name: {queue}_ack
-- This owner must hold the message, with this epoch and an unexpired lease.
update {schema}_{queue} set status = 1, processed_at = ?4, lease_until = -9000000000000000000
 where id = ?2 and claim_epoch = ?3 and owner_token = ?1 and lease_until > ?4;

-- name: {queue}_ack_step_run
-- Consecutive rows of one epoch. ?6 has their ids, one after the other.
update or fail {schema}_{queue} set status = 1, processed_at = ?1,
lease_until = -9000000000000000000
 where seq between ?3 and ?4 and claim_epoch = ?5 and owner_token = ?2 and lease_until > ?1
   and id = substr(?6, (seq - ?3) * 16 + 1, 16);

-- name: {queue}_ack_step_many
-- Up to sixteen claims; the other parameters are null.
update or fail {schema}_{queue} set status = 1, processed_at = ?1,
lease_until = -9000000000000000000
 where id in (?3, ?5, ?7, ?9, ?11, ?13, ?15, ?17, ?19, ?21, ?23, ?25, ?27, ?29, ?31, ?33)
   and owner_token = ?2 and lease_until > ?1
   and claim_epoch = case id
         when ?3 then ?4 when ?5 then ?6 when ?7 then ?8 when ?9 then ?10 when ?11 then ?12
         when ?13 then ?14 when ?15 then ?16 when ?17 then ?18 when ?19 then ?20 when ?21 then ?22
         when ?23 then ?24 when ?25 then ?26 when ?27 then ?28 when ?29 then ?30 when ?31 then ?32
         when ?33 then ?34 end;

-- name: {queue}_ack_step_remove_run
delete from {schema}_{queue}
 where seq between ?3 and ?4 and claim_epoch = ?5 and owner_token = ?2 and lease_until > ?1
   and id = substr(?6, (seq - ?3) * 16 + 1, 16);

-- name: {queue}_ack_step_remove_many
delete from {schema}_{queue}
 where id in (?3, ?5, ?7, ?9, ?11, ?13, ?15, ?17, ?19, ?21, ?23, ?25, ?27, ?29, ?31, ?33)
   and owner_token = ?2 and lease_until > ?1
   and claim_epoch = case id
         when ?3 then ?4 when ?5 then ?6 when ?7 then ?8 when ?9 then ?10 when ?11 then ?12
         when ?13 then ?14 when ?15 then ?16 when ?17 then ?18 when ?19 then ?20 when ?21 then ?22
         when ?23 then ?24 when ?25 then ?26 when ?27 then ?28 when ?29 then ?30 when ?31 then ?32
         when ?33 then ?34 end;

-- name: {queue}_ack_step_remove
-- The same without history.
delete from {schema}_{queue}
  where id = ?2 and claim_epoch = ?3 and owner_token = ?1 and lease_until > ?4;

-- name: {queue}_ack_step_stream
-- A message whose stream is this owner's.
update {schema}_{queue} as m set status = 1, processed_at = ?4, owner_token = ?1, claim_epoch = ?3,
lane = -101
 where m.id = ?2 and m.status = 0
   and exists (select 1 from {schema}_{queue}_stream as s
                where s.stream = m.stream and s.owner_token = ?1 and s.epoch = ?3
                  and s.lease_until > ?4 and m.seq <= s.run_to
                  and m.claim_epoch <> s.epoch)
returning stream;

-- name: {queue}_ack_step_remove_stream
delete from {schema}_{queue} as m
 where m.id = ?2 and m.status = 0
   and exists (select 1 from {schema}_{queue}_stream as s
                where s.stream = m.stream and s.owner_token = ?1 and s.epoch = ?3
                  and s.lease_until > ?4 and m.seq <= s.run_to
                  and m.claim_epoch <> s.epoch)
returning stream;

-- name: {queue}_ack_step_claimed_stream
-- returns: seq integer, attempts integer, stream text
-- A message that stays in its stream after a settlement gets the epoch of the lease, so that a
-- second settlement of the same claim finds nothing.
select m.seq, m.attempts, m.stream from {schema}_{queue} as m
  join {schema}_{queue}_stream as s on s.stream = m.stream
 where m.id = ?2 and m.status = 0 and s.owner_token = ?1 and s.epoch = ?3 and s.lease_until > ?4
   and m.seq <= s.run_to
   and m.claim_epoch <> s.epoch;

-- name: {queue}_ack_step_mark_settled
update {schema}_{queue} set claim_epoch = ?2 where seq = ?1;

-- name: {queue}_ack_step_count_down
-- A handler's transaction renews the lease for the longest time that it may take. The lease of the
-- messages that follow has the usual duration.
update {schema}_{queue}_stream
   set unsettled = unsettled - ?2, lease_until = min(lease_until, ?3 + lease)
 where stream = ?1 returning unsettled;

-- name: {queue}_ack_step_end_lease
delete from {schema}_{queue}_stream where stream = ?1 and blocked_at is null;

-- name: {queue}_ack_step_end_lease_blocked
update {schema}_{queue}_stream
   set lease_until = -9000000000000000000, owner_token = zeroblob(16), unsettled = 0
 where stream = ?1;

-- name: {queue}_ack_step_ticket
-- Makes the first message of a stream a ticket, unless it is parked, or the stream is leased or
-- blocked.
update {schema}_{queue} set lane = priority + 20, ready_at = max(ready_at, ?2)
 where seq = (select min(seq) from {schema}_{queue} where stream = ?1 and status = 0)
   and lane = -101
   and not exists (select 1 from {schema}_{queue}_stream where stream = ?1);

-- name: {queue}_ack_step_renew_stream
update {schema}_{queue}_stream set lease_until = ?2 where stream = ?1;

-- name: {queue}_abandon_step_claimed
-- returns: seq integer, attempts integer
select seq, attempts from {schema}_{queue}
  where id = ?2 and claim_epoch = ?3 and owner_token = ?1 and lease_until > ?4;

-- name: {queue}_snooze
update {schema}_{queue} set lease_until = -9000000000000000000, ready_at = coalesce(?2, ready_at)
  where seq = ?1;

-- name: {queue}_renew
update {schema}_{queue} set lease_until = ?2 where seq = ?1;

-- name: {queue}_set_stages
update {schema}_{queue} set stages = stages | ?2 where seq = ?1 and stages | ?2 <> stages;

-- name: {queue}_set_stages_step_stored
-- Of a message that this transaction has stored.
update {schema}_{queue} set stages = stages | ?2 where id = ?1 and status = 0;

-- name: {queue}_reap_expired
-- returns here: as {queue}_abandon_step_claimed
-- Searches the first messages of one lane: leased messages are near the front.
select seq, attempts
  from (select seq, attempts, lease_until from {schema}_{queue}
         where status = 0 and lane = ?1 and ready_at <= ?2 order by ready_at, seq limit ?4)
 where lease_until between 1 and ?2 limit ?3;

-- name: {queue}_reap_expired_step_owner
-- Lets the leases of a dead owner expire.
update {schema}_{queue} set lease_until = ?2
 where status = 0 and lane between -5 and 5 and owner_token = ?1 and lease_until > ?2;

-- name: {queue}_reap_expired_step_owner_streams
update {schema}_{queue}_stream set lease_until = ?2 where owner_token = ?1 and lease_until > ?2;

-- name: {queue}_next_due_step_lane
-- returns: due_in integer, topic text
-- The next messages of one lane with their topics, for a claim that takes only some topics.
select ready_at - ?2 as due_in, topic from {schema}_{queue}
 where status = 0 and lane = ?1 and ready_at > ?2 and ready_at < ?2 + 86400000000
 order by ready_at limit ?3;

-- name: {queue}_next_due
-- The time from now.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5))
select min((select min(ready_at) from {schema}_{queue}
             where status = 0 and lane = lanes.lane and ready_at > ?1
               and ready_at < ?1 + 86400000000)) - ?1
  from lanes;

-- name: {queue}_next_due_step_has_streams
select exists (select 1 from {schema}_{queue} where status = 0 and lane >= 15)
    or exists (select 1 from {schema}_{queue}_stream where lease_until > 0);

-- name: {queue}_next_due_step_watch
-- returns: newest integer, due_at time
-- The newest message, and the time when the first message that no worker holds is due.
with lanes(lane) as (values (-5), (-4), (-3), (-2), (-1), (0), (1), (2), (3), (4), (5),
                            (15), (16), (17), (18), (19), (20), (21), (22), (23), (24), (25))
select (select max(seq) from {schema}_{queue}) as newest,
       min((select ready_at from {schema}_{queue}
             where status = 0 and lane = lanes.lane and lease_until <= ?1
             order by ready_at limit 1)) as due_at
  from lanes;
