-- Streams of a queue: the messages of one stream are handled in order, by one owner at a time.
--
-- A worker leases a stream, not its messages. The first messages of the stream are its run: the
-- worker handles them one after the other, and settles them like other claims. The lease ends with
-- the last settlement of the run.
--
-- A message with a lane from 15 to 25 (its priority + 20) is a ticket: its stream may have work.
-- Claims read tickets, and remove those that they have read. Every stream that has messages and
-- that is neither leased nor blocked has a ticket at its first message, because
--   * an enqueue stores a ticket (a second message of the same stream and call needs none),
--   * a claim removes a ticket only if the stream is leased or blocked, or if the message is not
--     the first of its stream,
--   * the end of a lease, and the end of a first message, make the next message a ticket.
-- The end of a lease locks the row of the stream before it looks for the next message. A claim
-- locks that row before it removes a ticket. So neither misses the other.

-- Makes the first messages of these streams tickets, at the end of the line. Blocked and parked
-- messages stay as they are.
-- The update waits for a claim that removes a ticket at this moment, and then sets it again.
create function {schema}._{queue}_ticket(streams text[], above bigint[] default null)
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
begin
  update {schema}.{queue} o
     set lane = o.priority + 20, ready_at = greatest(o.ready_at, {schema}.clock())
    from (select f.id
            from unnest(streams, above) as u(stream, above)
           cross join lateral (select q.id from {schema}.{queue} q
                                where q.stream = u.stream and q.seq > coalesce(u.above, 0)
                                order by q.seq limit 1) f
           order by f.id) first
   where o.id = first.id and (o.lane is null or o.lane >= -5);
end
$function$;

-- Ends the leases of streams whose rows the caller has locked. The next message of each becomes a
-- ticket. A transaction with an old snapshot cannot know the next message: it lets the lease
-- expire at once, and the next claim does the rest.
--
-- topics: the topics of the messages that the caller has settled. If the next message has another
-- one, other workers are woken.
create function {schema}._{queue}_release_streams(streams text[], topics text[] default null)
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_left text[];
  v_above bigint[];
  v_topics text[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    update {schema}.{queue}_stream s
       set lease_until = {schema}.clock(), unsettled = 0,
           owner_token = coalesce(s.owner_token, '00000000-0000-0000-0000-000000000000')
     where s.stream = any (streams);
    perform {schema}._wake('{queue}');
    return;
  end if;
  select array_agg(s.stream::text), array_agg(coalesce(f.seq - 1, s.passed)),
         array_agg(distinct f.topic::text)
    into v_left, v_above, v_topics
    from {schema}.{queue}_stream s
    left join lateral (select o.seq, o.topic from {schema}.{queue} o
                        where o.stream = s.stream and o.seq > s.passed
                        order by o.seq limit 1) f on true
   where s.stream = any (streams) and (s.blocked_at is not null or f.seq is not null);
  delete from {schema}.{queue}_stream s
   where s.stream = any (streams) and not s.stream::text in (select unnest(v_left));
  if v_left is null then
    return;
  end if;
  update {schema}.{queue}_stream s
     set owner_token = null, lease_until = null, unsettled = 0, passed = u.above
    from unnest(v_left, v_above) as u(stream, above)
   where s.stream = u.stream;
  perform {schema}._{queue}_ticket(v_left, v_above);
  if topics is not null and not v_topics <@ topics then
    perform {schema}._wake('{queue}');
  end if;
end
$function$;

-- Ends leases of streams that have expired, up to `most`; returns how many. The first message of
-- each lease is charged an attempt: its worker was handling that one, or one of the next. A stream
-- whose first message is locked is left for the next time: a settlement has locked the message, and
-- waits for the stream.
create function {schema}._{queue}_reap_streams(most integer default 100) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_column
declare
  v_expired text[];
  v_first uuid[];
  v_locked uuid[];
  v_streams text[];
begin
  v_expired := array(
    select s.stream::text from {schema}.{queue}_stream s
     where s.owner_token is not null and s.lease_until <= (select {schema}.clock())
     order by s.lease_until limit most
       for update skip locked);
  if v_expired = '{}' then
    return 0;
  end if;
  v_first := array(
    select f.id from unnest(v_expired) as u(stream)
     cross join lateral (select q.id from {schema}.{queue} q where q.stream = u.stream
                          order by q.seq limit 1) f);
  v_locked := array(select o.id from {schema}.{queue} o where o.id = any (v_first)
                     order by o.id for no key update skip locked);
  v_streams := array(
    select u.stream from unnest(v_expired) as u(stream)
     where not exists (select from {schema}.{queue} o
                        where o.id = any (v_first) and o.stream = u.stream
                          and not o.id = any (v_locked)));
  update {schema}.{queue} o
     set attempts = o.attempts + 1, lost_leases = least(o.lost_leases + 1, 1000),
         failures = {schema}._queue_failed(
           o.failures, o.past_attempts + o.attempts + 1, 'lost_lease', null,
           (select s.owner_token from {schema}.{queue}_stream s where s.stream = o.stream))
   where o.id = any (v_locked) and o.lane is distinct from -102
     and exists (select from {schema}.{queue}_stream s
                  where s.stream = o.stream and s.unsettled > 0 and o.seq <= s.run_to);
  perform {schema}._{queue}_release_streams(v_streams);
  return cardinality(v_streams);
end
$function$;
