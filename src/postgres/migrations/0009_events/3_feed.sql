-- The order of all events.
--
-- event_stamp gives positions to the events that have committed. It is right because:
-- 1. One stamper works at a time: it holds the row of event_feed_state until it commits. So
--    positions become visible in their order, and a reader never sees a gap that is filled later.
-- 2. An event that depends on another one (an earlier event of its stream, or any event that its
--    transaction has read) drew a higher number, and committed later. So a snapshot that shows the
--    event shows the other one, and the stamper, which goes by numbers, places the other one first.
-- 3. A number without a visible event is a hole: its transaction is open, or was rolled back. It is
--    closed only when all transactions that can have drawn it have ended. A transaction has its id
--    before it draws a number, because it locks the row of its stream first. The transactions that
--    drew numbers up to `seen`, read in the last round, have lower ids than this round (mark_xid).
--    Whether all of them have ended is asked before the search for events: the snapshot of the
--    search then shows all of their events.
--    A transaction that had its id before this call sets no mark: transactions with higher ids may
--    have drawn numbers up to `seen`.
-- 4. The value of the sequence is read before the search, in READ COMMITTED. With the snapshot of
--    an older statement, committed events would look like holes.
--
-- most: positions to give at most. wait: waits for another stamper; otherwise head is null if one
-- works. durable: false lets the commit return before it is on disk. After a crash, positions of
-- the last moments may then be given again, in another order. That is safe for readers that store
-- their progress in this database.
create function {schema}.event_stamp(
  most        integer default 10000,
  wait        boolean default false,
  durable     boolean default true,
  out head    bigint,
  out stamped integer
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_variable
declare
  v_has_id boolean := pg_current_xact_id_if_assigned() is not null;
  v_state {schema}.event_feed_state;
  v_last bigint;
  v_cache bigint;
  v_ended boolean;
  v_gaps int8multirange;
  v_nos bigint[];
  v_counts integer[];
  v_got int8multirange;
  v_top bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'event_stamp needs the isolation level READ COMMITTED'
      using errcode = 'active_sql_transaction';
  end if;
  stamped := 0;
  -- Nothing to do: that is found out without a lock.
  select f.head, f.low into head, v_state.low from {schema}.event_feed_state f;
  if v_state.low = (select case when q.is_called then q.last_value else 0 end
                      from {schema}.event_no q) then
    return;
  end if;
  head := null;
  if wait then
    select * into v_state from {schema}.event_feed_state for update;
  else
    select * into v_state from {schema}.event_feed_state for update skip locked;
    if not found then
      return;
    end if;
  end if;
  head := v_state.head;
  select case when q.is_called then q.last_value else 0 end, s.seqcache into v_last, v_cache
    from {schema}.event_no q
    join pg_catalog.pg_sequence s on s.seqrelid = '{schema}.event_no'::regclass;
  if v_cache <> 1 then
    raise exception 'the sequence event_no has a cache of %: set it to 1', v_cache
      using errcode = 'object_not_in_prerequisite_state';
  elsif v_last < v_state.seen then
    raise exception 'the sequence event_no is at %, but events up to % were seen', v_last,
      v_state.seen using errcode = 'object_not_in_prerequisite_state',
      hint = 'It was not restored with the tables: set it to a higher value with setval.';
  elsif v_last = v_state.low then
    return;
  end if;
  if v_state.mark_xid > pg_current_xact_id() then
    v_state.mark_xid := null;  -- restored into another cluster
  end if;
  v_ended := coalesce(v_state.mark_xid <= pg_snapshot_xmin(pg_current_snapshot()), false);
  v_gaps := int8multirange(int8range(v_state.low + 1, v_last + 1)) - v_state.done;
  with found as materialized (
    select e.no from unnest(v_gaps) g cross join lateral (
             select e.no from {schema}.event e where e.no >= lower(g) and e.no < upper(g)
              order by e.no limit most) e
     order by e.no limit most),
  runs as (
    select min(f.no) as no, count(*)::integer as n
      from (select no, no - row_number() over (order by no) as run from found) f group by f.run)
  select array_agg(r.no order by r.no), array_agg(r.n order by r.no), coalesce(sum(r.n), 0),
         range_agg(int8range(r.no, r.no + r.n))
    into v_nos, v_counts, stamped, v_got from runs r;
  if stamped = 0 and not v_ended and v_state.mark_xid is not null then
    return;
  end if;
  if stamped > 0 then
    perform {schema}._event_place(v_state.head, v_nos, v_counts);
    v_state.done := v_state.done + v_got;
    head := v_state.head + stamped;
  end if;
  if v_ended then
    if stamped < most then
      v_state.low := greatest(v_state.low, v_state.mark_no);
    end if;
    v_state.mark_xid := null;
  end if;
  v_state.done := v_state.done - int8multirange(int8range(null, v_state.low + 1));
  if lower(v_state.done) = v_state.low + 1 then
    select upper(r) - 1 into v_top from unnest(v_state.done) r limit 1;
    v_state.low := v_top;
    v_state.done := v_state.done - int8multirange(int8range(null, v_top + 1));
  end if;
  if v_state.mark_xid is null and v_state.seen > v_state.low and not v_has_id then
    v_state.mark_xid := pg_current_xact_id();
    v_state.mark_no := v_state.seen;
  end if;
  update {schema}.event_feed_state f
     set head = event_stamp.head, low = v_state.low, done = v_state.done, seen = v_last,
         mark_no = v_state.mark_no, mark_xid = v_state.mark_xid;
  if stamped > 0 then
    perform {schema}._wake('event_feed');
  end if;
  if not durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
end
$function$;
comment on function {schema}.event_stamp is
  'Gives positions to the events that have committed; returns the last position of the feed.';

-- Internal. Stores runs after the position `head`. A run that continues the last one extends it.
create function {schema}._event_place(head bigint, nos bigint[], counts integer[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_variable
declare
  v_last {schema}.event_feed;
  v_from integer := 1;
begin
  select * into v_last from {schema}.event_feed f order by f.position desc limit 1;
  if v_last.no + v_last.n = nos[1] and v_last.n < 1000000 then
    update {schema}.event_feed f set n = f.n + counts[1] where f.position = v_last.position;
    v_from := 2;
    head := head + counts[1];
  end if;
  insert into {schema}.event_feed (position, no, n)
  select head + 1 + sum(r.n) over (order by r.no) - r.n, r.no, r.n
    from unnest(nos[v_from:], counts[v_from:]) r(no, n);
end
$function$;

-- A page of the feed: up to `most` events after the position `after`. It examines up to `scan`
-- positions. The next page begins after the highest `upto`. If the page has fewer than `most`
-- events, its last row is not an event: it has only `upto`, the last position that was examined.
--
-- types, prefixes (of stream keys): null for all. parts, part: only the events of streams whose
-- number modulo `parts` is `part`.
--
-- It reads what event_stamp has written, in any isolation level, and on a standby.
create function {schema}.event_read_all(
  after    bigint   default 0,
  most     integer  default 1000,
  scan     integer  default 10000,
  types    text[]   default null,
  prefixes text[]   default null,
  parts    integer  default null,
  part     integer  default null
) returns table (upto bigint, "position" bigint, stream text, version bigint, at timestamptz,
                 id uuid, type text, data text, metadata text, correlation_id text,
                 causation_id text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off
  set enable_hashjoin = off set enable_mergejoin = off
as $function$
#variable_conflict use_variable
declare
  v_upto bigint;
  v_first bigint;
  v_rows integer;
begin
  select least(after + scan, f.head) into v_upto from {schema}.event_feed_state f;
  v_first := coalesce((select max(f.position) from {schema}.event_feed f
                        where f.position <= after + 1), 1);
  return query
  select q.place, q.place, q.key, q.version, q.at, q.id, q.type::text, q.data, q.metadata,
         q.correlation_id::text, q.causation_id::text
    from (select f.position + (e.no - f.no) as place, e.*
            from {schema}.event_feed f cross join lateral (
                   select e.* from {schema}.event e
                    where e.no >= f.no + greatest(0, after + 1 - f.position)
                      and e.no < f.no + least(f.n, v_upto + 1 - f.position)
                      and (types is null or e.type = any (types))
                      and (prefixes is null or e.key ^@ any (prefixes))
                      and (parts is null or e.stream % parts = part)
                    order by e.no limit most) e
           where f.position >= v_first and f.position <= v_upto
           order by f.position, e.no limit most) q;
  get diagnostics v_rows = row_count;
  if v_rows < most then  -- all positions up to v_upto were examined
    upto := greatest(v_upto, after);
    return next;
  end if;
end
$function$;
comment on function {schema}.event_read_all is
  'A page of the events of all streams, in the order of their positions.';

-- The position of an event. Null: it does not exist, or event_stamp has not seen it yet.
create function {schema}.event_position(stream text, version bigint) returns bigint
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
declare
  v_position bigint;
begin
  select f.position + (e.no - f.no) into v_position
    from {schema}.event_stream s
    join {schema}.event e on e.stream = s.no and e.version = event_position.version
    cross join lateral (select r.* from {schema}.event_feed r where r.no <= e.no
                         order by r.no desc limit 1) f
   where s.key = event_position.stream and e.no < f.no + f.n;
  return v_position;
end
$function$;
comment on function {schema}.event_position is
  'The position of an event in the feed; null while it has none.';
