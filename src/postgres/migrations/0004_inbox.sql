-- The inbox: what has come in, by its source and the id that it has there, so that it takes effect once; and a queue of
-- its own for what is to be handled later, with the functions of the outbox's queue.

-- template: queue_1 queue=inbox

create domain {schema}.inbox_source as text collate "C" check (char_length(value) between 1 and 64);
create domain {schema}.inbox_key as text collate "C" check (char_length(value) between 1 and 255);
create domain {schema}.inbox_hash as bytea check (octet_length(value) = 32);

-- One row for every message that was seen, whether it passed through the queue or not. No index holds what another
-- sighting changes: duplicates are HOT updates.
create table {schema}.inbox_guard (
  first_seen_at timestamptz not null,
  last_seen_at  timestamptz not null,
  processed_at  timestamptz,                       -- when it was processed, or given up
  lease_until   timestamptz,                       -- while it is being processed
  sightings     bigint      not null default 1,
  claim_epoch   bigint      not null default 0,    -- grows when somebody begins
  attempts      integer     not null default 0,    -- times that somebody began
  status        smallint    not null default 0,    -- seen, processing, processed, dead, queued
  by_process    boolean     not null default false, -- begun by Inbox::process(): its transaction follows at once
  owner_token   uuid,
  item_id       uuid,                              -- in the queue, or in its archive
  source        {schema}.inbox_source not null,
  message_id    {schema}.inbox_key not null,
  hash          {schema}.inbox_hash,
  last_error    text,
  constraint inbox_guard_pkey primary key (source, message_id),
  constraint inbox_guard_status check (status between 0 and 4)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create unique index inbox_guard_item on {schema}.inbox_guard (item_id) where item_id is not null;
create index inbox_guard_processed on {schema}.inbox_guard (processed_at) where status = 2;
create index inbox_guard_given_up on {schema}.inbox_guard (processed_at) where status = 3;
create index inbox_guard_open on {schema}.inbox_guard (first_seen_at) where status in (0, 1);
create index inbox_guard_leases on {schema}.inbox_guard (lease_until) where status = 1;
create index inbox_guard_dead on {schema}.inbox_guard (source, message_id) where status = 3;

create view {schema}.inbox_seen as
  select g.source, g.message_id, g.hash,
         (array['seen', 'processing', 'processed', 'dead', 'queued'])[g.status + 1] as status,
         g.first_seen_at, g.last_seen_at, g.processed_at, g.sightings,
         coalesce(q.attempts, a.attempts, g.attempts) as attempts, coalesce(q.last_error, a.last_error, g.last_error) as last_error,
         coalesce(q.topic, a.topic)::text as topic, g.item_id, g.lease_until
    from {schema}.inbox_guard g
    left join {schema}.inbox q on q.id = g.item_id
    left join {schema}.inbox_archive a on a.id = g.item_id;

-- For the functions below, not for callers.
comment on view {schema}.inbox_seen is
  'Messages that were received: by source and message id, with their state.';
create function {schema}._inbox_check(source text, message_id text, hash bytea) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
as $function$
begin
  if source is null or source = '' then
    raise exception 'source must not be null or empty' using errcode = 'invalid_parameter_value';
  elsif char_length(source) > 64 then
    raise exception 'source must not exceed 64 characters' using errcode = 'invalid_parameter_value';
  elsif message_id is null or message_id = '' then
    raise exception 'message_id must not be null or empty' using errcode = 'invalid_parameter_value';
  elsif char_length(message_id) > 255 then
    raise exception 'message_id must not exceed 255 characters' using errcode = 'invalid_parameter_value';
  elsif octet_length(hash) <> 32 then
    raise exception 'hash must have 32 bytes' using errcode = 'invalid_parameter_value';
  end if;
end
$function$;

-- Notes a sighting (counts: false only looks), and locks the row until the transaction ends;
-- answers the status, and whether the hash is the one that was seen first (also when either is
-- missing). For the functions below, not for callers.
create function {schema}._inbox_see(source text, message_id text, hash bytea, counts boolean default true,
                                    out status smallint, out matches boolean)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(_inbox_see.source, _inbox_see.message_id, _inbox_see.hash);
  insert into {schema}.inbox_guard as g (source, message_id, hash, first_seen_at, last_seen_at)
  values (_inbox_see.source, _inbox_see.message_id, _inbox_see.hash, v_now, v_now)
  on conflict on constraint inbox_guard_pkey do update
     set last_seen_at = greatest(g.last_seen_at, excluded.last_seen_at), sightings = g.sightings + counts::integer,
         hash = coalesce(g.hash, excluded.hash)
  returning g.status, coalesce(g.hash = _inbox_see.hash, true) into status, matches;
end
$function$;

-- Notes a sighting; answers whether the message was processed before. Two callers may both be told false: use
-- inbox_try_begin to be the only one. Refuses another hash than the one that was seen first.
create function {schema}.inbox_already_processed(source text, message_id text, hash bytea default null) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_seen record;
begin
  v_seen := {schema}._inbox_see(source, message_id, hash);
  if not v_seen.matches then
    raise exception 'message % of % was seen before with another content', message_id, source
      using errcode = 'data_exception';
  end if;
  return v_seen.status = 2;
end
$function$;
comment on function {schema}.inbox_already_processed is
  'Notes a message as seen and returns whether it was processed before.';

-- As inbox_try_begin, for Inbox::process() too: by_process is that the caller is one, and then (as
-- an answer) that the one who has begun is one; counts is that this is a sighting; gave_up that
-- this very call gave the message up. For the functions below, not for callers.
create function {schema}._inbox_begin(
  source           text,
  message_id       text,
  owner_token      uuid,
  lease            interval,
  hash             bytea,
  max_attempts     integer,
  counts           boolean,
  inout by_process boolean,
  out outcome      text,
  out claim_epoch  bigint,
  out attempts     integer,
  out lease_until  timestamptz,
  out mine         boolean,
  out gave_up      boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
#variable_conflict use_column
declare
  v_seen record;
  v_row record;
begin
  if _inbox_begin.owner_token is null then
    raise exception 'owner_token must not be null' using errcode = 'invalid_parameter_value';
  elsif lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  elsif max_attempts is null or max_attempts < 1 then
    raise exception 'max_attempts must be at least 1' using errcode = 'invalid_parameter_value';
  end if;
  v_seen := {schema}._inbox_see(_inbox_begin.source, _inbox_begin.message_id, _inbox_begin.hash, counts);
  select g.claim_epoch, g.attempts, g.lease_until, g.owner_token, g.by_process into v_row from {schema}.inbox_guard g
   where g.source = _inbox_begin.source and g.message_id = _inbox_begin.message_id;
  claim_epoch := v_row.claim_epoch;
  attempts := v_row.attempts;
  mine := coalesce(v_row.owner_token = _inbox_begin.owner_token, false);
  gave_up := false;
  if not v_seen.matches then
    outcome := 'hash_mismatch';
  elsif v_seen.status in (2, 3) then
    outcome := case v_seen.status when 2 then 'processed' else 'dead' end;
  elsif v_seen.status = 4 then
    outcome := 'in_progress';
    by_process := false;
  elsif v_seen.status = 1 and v_row.lease_until > {schema}.clock() then
    outcome := case when mine then 'started' else 'in_progress' end;
    lease_until := v_row.lease_until;
    by_process := v_row.by_process;
  elsif v_seen.status = 1 and v_row.attempts >= max_attempts then
    update {schema}.inbox_guard g
       set status = 3, processed_at = {schema}.clock(), lease_until = null,
           last_error = 'its lease ran out, and with it its last attempt'
     where g.source = _inbox_begin.source and g.message_id = _inbox_begin.message_id;
    outcome := 'dead';
    gave_up := true;
  else
    update {schema}.inbox_guard g
       set status = 1, owner_token = _inbox_begin.owner_token, claim_epoch = g.claim_epoch + 1,
           attempts = g.attempts + 1, lease_until = {schema}.clock() + lease, by_process = _inbox_begin.by_process
     where g.source = _inbox_begin.source and g.message_id = _inbox_begin.message_id
    returning g.claim_epoch, g.attempts, g.lease_until into claim_epoch, attempts, lease_until;
    outcome := 'started';
    mine := true;
  end if;
end
$function$;

-- Notes a sighting, and makes the caller the one who processes the message, if nobody does or has.
-- outcome is one of started (to one caller only, until its lease ends), in_progress, processed,
-- dead, hash_mismatch. Asked again with the same owner_token while its lease holds, the answer is
-- started again. mine: that owner was the last one to begin.
--
-- Each begin counts as an attempt. A message whose lease ran out at its attempt number
-- max_attempts, or later, is dead.
create function {schema}.inbox_try_begin(
  source          text,
  message_id      text,
  owner_token     uuid,
  lease           interval default interval '5 minutes',
  hash            bytea    default null,
  max_attempts    integer  default 10,
  out outcome     text,
  out claim_epoch bigint,
  out attempts    integer,
  out lease_until timestamptz,
  out mine        boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  select b.outcome, b.claim_epoch, b.attempts, b.lease_until, b.mine
    into outcome, claim_epoch, attempts, lease_until, mine
    from {schema}._inbox_begin(source, message_id, owner_token, lease, hash, max_attempts, true, false) b;
end
$function$;
comment on function {schema}.inbox_try_begin is
  'Begins to process a received message; answers started to exactly one caller.';

-- For the transaction of Inbox::process() that follows its begin: locks the message, and lets its
-- lease end `lease` from now. Answers whether nobody else has begun since; the lease may have
-- ended. Not for callers.
create function {schema}._inbox_continue_try(source text, message_id text, owner_token uuid, claim_epoch bigint, lease interval)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  update {schema}.inbox_guard g set lease_until = greatest(g.lease_until, {schema}.clock() + lease)
   where g.source = _inbox_continue_try.source and g.message_id = _inbox_continue_try.message_id and g.status = 1
     and g.owner_token = _inbox_continue_try.owner_token and g.claim_epoch = _inbox_continue_try.claim_epoch;
  return found;
end
$function$;

-- Notes that the message is being processed: one more attempt, and for `lease` inbox_try_begin answers in_progress.
-- Answers false when it was processed, is dead, waits in the queue, or is held by inbox_try_begin.
create function {schema}.inbox_mark_processing(source text, message_id text, lease interval default interval '5 minutes')
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(inbox_mark_processing.source, inbox_mark_processing.message_id, null);
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.inbox_guard as g (source, message_id, first_seen_at, last_seen_at, status, attempts, claim_epoch,
                                         lease_until)
  values (inbox_mark_processing.source, inbox_mark_processing.message_id, v_now, v_now, 1, 1, 1, v_now + lease)
  on conflict on constraint inbox_guard_pkey do update
     set status = 1, attempts = g.attempts + 1, claim_epoch = g.claim_epoch + 1, owner_token = null,
         lease_until = {schema}.clock() + lease, by_process = false
   where g.status = 0 or (g.status = 1 and (g.owner_token is null or g.lease_until <= {schema}.clock()));
  return found;
end
$function$;
comment on function {schema}.inbox_mark_processing is
  'Marks a received message as being processed.';

-- Marks a message as processed; answers whether that changed anything. With the owner_token and claim_epoch of
-- inbox_try_begin: only while that lease holds. What waits in the queue, or is a dead letter of it, is left alone.
create function {schema}.inbox_mark_processed(
  source      text,
  message_id  text,
  owner_token uuid   default null,
  claim_epoch bigint default null
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(inbox_mark_processed.source, inbox_mark_processed.message_id, null);
  if inbox_mark_processed.owner_token is not null then
    update {schema}.inbox_guard g
       set status = 2, processed_at = {schema}.clock(), lease_until = null
     where g.source = inbox_mark_processed.source and g.message_id = inbox_mark_processed.message_id and g.status = 1
       and g.owner_token = inbox_mark_processed.owner_token and g.claim_epoch = inbox_mark_processed.claim_epoch
       and g.lease_until > {schema}.clock();
    return found;
  end if;
  insert into {schema}.inbox_guard as g (source, message_id, first_seen_at, last_seen_at, status, processed_at)
  values (inbox_mark_processed.source, inbox_mark_processed.message_id, v_now, v_now, 2, v_now)
  on conflict on constraint inbox_guard_pkey do update
     set status = 2, processed_at = {schema}.clock(), lease_until = null, owner_token = null
   where g.status in (0, 1) or (g.status = 3 and g.item_id is null);
  return found;
end
$function$;
comment on function {schema}.inbox_mark_processed is
  'Marks a received message as processed.';

-- Gives a message up; answers whether that changed anything. The rest as above.
create function {schema}.inbox_mark_dead(
  source      text,
  message_id  text,
  reason      text   default null,
  owner_token uuid   default null,
  claim_epoch bigint default null
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._inbox_check(inbox_mark_dead.source, inbox_mark_dead.message_id, null);
  if inbox_mark_dead.owner_token is not null then
    update {schema}.inbox_guard g
       set status = 3, processed_at = {schema}.clock(), lease_until = null,
           last_error = coalesce(left(reason, 2048), g.last_error)
     where g.source = inbox_mark_dead.source and g.message_id = inbox_mark_dead.message_id and g.status = 1
       and g.owner_token = inbox_mark_dead.owner_token and g.claim_epoch = inbox_mark_dead.claim_epoch
       and g.lease_until > {schema}.clock();
    return found;
  end if;
  insert into {schema}.inbox_guard as g (source, message_id, first_seen_at, last_seen_at, status, processed_at, last_error)
  values (inbox_mark_dead.source, inbox_mark_dead.message_id, v_now, v_now, 3, v_now, left(reason, 2048))
  on conflict on constraint inbox_guard_pkey do update
     set status = 3, processed_at = {schema}.clock(), lease_until = null, owner_token = null,
         last_error = coalesce(left(reason, 2048), g.last_error)
   where g.status in (0, 1);
  return found;
end
$function$;
comment on function {schema}.inbox_mark_dead is
  'Marks a received message as dead: it is not processed again.';

-- Gives back what inbox_try_begin gave: the next may begin at once. Answers whether it was still
-- held. charge: zero takes the attempt back that the begin counted.
create function {schema}.inbox_release(source text, message_id text, owner_token uuid, claim_epoch bigint,
                                       error text default null, charge integer default 1) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
begin
  update {schema}.inbox_guard g
     set status = 0, lease_until = null, last_error = coalesce(left(error, 2048), g.last_error),
         attempts = g.attempts - (case charge when 0 then 1 else 0 end)
   where g.source = inbox_release.source and g.message_id = inbox_release.message_id and g.status = 1
     and g.owner_token = inbox_release.owner_token and g.claim_epoch = inbox_release.claim_epoch
     and g.lease_until > {schema}.clock();
  return found;
end
$function$;
comment on function {schema}.inbox_release is
  'Gives a message whose processing has begun back, for another try.';

-- Lets the lease of inbox_try_begin end `lease` from now, or when it would have, if that is later; answers the time, null
-- when it is not held any more.
create function {schema}.inbox_renew_ticket(source text, message_id text, owner_token uuid, claim_epoch bigint, lease interval)
  returns timestamptz
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_until timestamptz;
begin
  if lease is null or lease <= interval '0' then
    raise exception 'lease must be positive' using errcode = 'invalid_parameter_value';
  end if;
  update {schema}.inbox_guard g set lease_until = greatest(g.lease_until, {schema}.clock() + lease)
   where g.source = inbox_renew_ticket.source and g.message_id = inbox_renew_ticket.message_id and g.status = 1
     and g.owner_token = inbox_renew_ticket.owner_token and g.claim_epoch = inbox_renew_ticket.claim_epoch
     and g.lease_until > {schema}.clock()
  returning g.lease_until into v_until;
  return v_until;
end
$function$;
comment on function {schema}.inbox_renew_ticket is
  'Extends the lease of a message that is being processed; returns its new end, or null.';

-- Stores a message in the inbox's queue, unless it is known already. outcome is stored, duplicate or hash_mismatch; id is
-- that of the queue's message, also of one that was stored before. With the same item_id, a repeated call is told stored.
create function {schema}.inbox_enqueue(
  topic          text,
  source         text,
  message_id     text,
  payload        text,
  hash           bytea       default null,
  correlation_id text        default null,
  due_at         timestamptz default null,
  headers        jsonb       default null,
  expires_at     timestamptz default null,
  priority       integer     default 0,
  item_id        uuid        default null,
  notify         boolean     default true,
  out outcome    text,
  out id         uuid
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
#variable_conflict use_column
declare
  v_seen record;
  v_row record;
begin
  perform {schema}._queue_check(topic, payload, correlation_id, headers, priority, null);
  v_seen := {schema}._inbox_see(inbox_enqueue.source, inbox_enqueue.message_id, hash);
  select g.item_id, g.lease_until into v_row from {schema}.inbox_guard g
   where g.source = inbox_enqueue.source and g.message_id = inbox_enqueue.message_id;
  if not v_seen.matches then
    outcome := 'hash_mismatch';
    id := v_row.item_id;
  elsif v_seen.status = 0 or (v_seen.status = 1 and v_row.lease_until <= {schema}.clock()) then
    id := coalesce(inbox_enqueue.item_id, {schema}.uuid_v7());
    if not (select t.stored from {schema}.inbox_try_enqueue(
      topic, payload, id, correlation_id, due_at,
      coalesce(headers, '{}') || jsonb_build_object('dovetail-source', inbox_enqueue.source,
                                                    'dovetail-message-id', inbox_enqueue.message_id),
      expires_at, priority, null, notify) t) then
      raise exception 'item_id % is taken', id using errcode = 'invalid_parameter_value';
    end if;
    update {schema}.inbox_guard g set status = 4, item_id = inbox_enqueue.id, lease_until = null, owner_token = null
     where g.source = inbox_enqueue.source and g.message_id = inbox_enqueue.message_id;
    outcome := 'stored';
  else
    outcome := case when v_row.item_id = inbox_enqueue.item_id then 'stored' else 'duplicate' end;
    id := v_row.item_id;
  end if;
end
$function$;
comment on function {schema}.inbox_enqueue is
  'Stores a received message for a handler, once per source and message id.';

-- The hooks of the inbox's queue; see queue_hook. They keep the guard rows of its messages up to date. Every function that
-- locks several guard rows locks them in the order of their keys.
create function {schema}._inbox_guard_ended(ids uuid[], outcome integer) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
begin
  perform from {schema}.inbox_guard g where g.item_id = any (ids) order by g.source, g.message_id for no key update;
  update {schema}.inbox_guard g set status = outcome + 1, processed_at = {schema}.clock() where g.item_id = any (ids);
end
$function$;

create function {schema}._inbox_guard_lock_ends(ids uuid[], wait boolean) returns uuid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $function$
declare
  v_locked uuid[];
begin
  if wait then
    perform from {schema}.inbox_guard g where g.item_id = any (ids) order by g.source, g.message_id for no key update;
    return ids;
  end if;
  v_locked := array(select g.item_id from {schema}.inbox_guard g where g.item_id = any (ids)
                     order by g.source, g.message_id for no key update skip locked);
  return array(select u.id from unnest(ids) as u(id)
                where u.id = any (v_locked) or not exists (select from {schema}.inbox_guard g where g.item_id = u.id));
end
$function$;

create function {schema}._inbox_guard_replayed(ids uuid[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  perform from {schema}.inbox_guard g where g.item_id = any (ids) order by g.source, g.message_id for no key update;
  update {schema}.inbox_guard g set status = 4, processed_at = null where g.item_id = any (ids);
end
$function$;

do $block$
begin
  perform {schema}._queue_add_hook('inbox', 'inbox_guard');
end
$block$;

-- Locks dead messages, up to `most`, in the order of their keys; passes over those that somebody else has locked. Every
-- argument that is given narrows it down. For the functions below, not for callers.
create function {schema}._inbox_lock_dead(
  only_source     text,
  only_message_id text,
  only_topic      text,
  failed_after      timestamptz,
  failed_before     timestamptz,
  most            integer
) returns tid[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return array(
    select g.ctid from {schema}.inbox_guard g
     where g.status = 3 and (only_source is null or g.source = only_source)
       and (only_message_id is null or g.message_id = only_message_id)
       and (failed_after is null or g.processed_at >= failed_after) and (failed_before is null or g.processed_at < failed_before)
       and (only_topic is null or exists (select from {schema}.inbox_archive a
                                           where a.id = g.item_id and a.topic = only_topic))
     order by g.source, g.message_id limit most
     for update skip locked);
end
$function$;

-- Lets dead messages live again, up to `most`, in the order of their keys: those of the queue are
-- ready again with their attempts at zero, after `delay` if there is one; the others count as seen.
-- Their last errors are kept, unless a reason is given. Answers how many. Every other argument that
-- is given narrows it down.
create function {schema}.inbox_replay_dead_letters(
  only_source     text        default null,
  only_message_id text        default null,
  only_topic      text        default null,
  failed_after      timestamptz default null,
  failed_before     timestamptz default null,
  most            integer     default 1000,
  reason          text        default null,
  delay           interval    default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := {schema}._inbox_lock_dead(only_source, only_message_id, only_topic, failed_after, failed_before, most);
  v_items uuid[];
  v_count integer;
begin
  if delay < interval '0' then
    raise exception 'delay must not be negative' using errcode = 'invalid_parameter_value';
  end if;
  v_items := array(select g.item_id from {schema}.inbox_guard g
                    where g.ctid = any (v_rows) and exists (select from {schema}.inbox_archive a where a.id = g.item_id));
  -- Also those whose dead letters somebody has purged.
  update {schema}.inbox_guard g
     set status = 0, attempts = 0, processed_at = null, item_id = null,
         last_error = coalesce(left(reason, 2048), g.last_error)
   where g.ctid = any (v_rows) and (g.item_id is null or g.item_id <> all (v_items));
  get diagnostics v_count = row_count;
  if v_items <> '{}' then
    v_count := v_count + {schema}.inbox_replay(ids => v_items, most => most);
    if coalesce(reason, delay::text) is not null then
      update {schema}.inbox q
         set ready_at = q.ready_at + coalesce(delay, interval '0'), last_error = coalesce(left(reason, 2048), q.last_error)
       where q.id = any (v_items);
    end if;
  end if;
  return v_count;
end
$function$;
comment on function {schema}.inbox_replay_dead_letters is
  'Lets dead messages be processed again; returns how many.';

-- Deletes dead messages, and the queue's dead letters with them, up to `most`: when they come again, they are new. Answers
-- how many. Every argument that is given narrows it down.
create function {schema}.inbox_purge_dead_letters(
  only_source     text        default null,
  only_message_id text        default null,
  only_topic      text        default null,
  failed_after      timestamptz default null,
  failed_before     timestamptz default null,
  most            integer     default 1000
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_rows tid[] := {schema}._inbox_lock_dead(only_source, only_message_id, only_topic, failed_after, failed_before, most);
  v_items uuid[];
  v_letters uuid[];
  v_count integer;
begin
  v_items := array(select g.item_id from {schema}.inbox_guard g where g.ctid = any (v_rows) and g.item_id is not null);
  -- Not waiting for one that somebody replays at this moment: that one waits for our row.
  v_letters := array(select a.id from {schema}.inbox_archive a where a.id = any (v_items) for update skip locked);
  delete from {schema}.inbox_guard g
   where g.ctid = any (v_rows)
     and (g.item_id is null or g.item_id = any (v_letters)
          or not exists (select from {schema}.inbox_archive a where a.id = g.item_id));
  get diagnostics v_count = row_count;
  delete from {schema}.inbox_archive a where a.id = any (v_letters);
  return v_count;
end
$function$;
comment on function {schema}.inbox_purge_dead_letters is
  'Deletes dead messages; returns how many.';

-- Forgets messages that ended, or that nobody has begun, before a time, up to `most`: when they come again, they are new.
-- Answers how many. Not those that wait in the queue or are dead letters of it.
create function {schema}.inbox_purge_old(before timestamptz, most integer default 1000) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off
as $function$
declare
  v_rows tid[];
  v_count integer;
begin
  v_rows := array(
    select g.ctid from {schema}.inbox_guard g
     where g.status = 2 and g.processed_at < before
     order by g.processed_at limit most
     for update skip locked);
  v_rows := v_rows || array(
    select g.ctid from {schema}.inbox_guard g
     where g.status = 3 and g.processed_at < before
       and (g.item_id is null or not exists (select from {schema}.inbox_archive a where a.id = g.item_id))
     order by g.processed_at limit most - cardinality(v_rows)
     for update skip locked);
  delete from {schema}.inbox_guard g where g.ctid = any (v_rows);
  v_count := cardinality(v_rows);
  if v_count < most then
    v_rows := array(
      select g.ctid from {schema}.inbox_guard g
       where g.status in (0, 1) and g.first_seen_at < before and g.last_seen_at < before
         and (g.lease_until is null or g.lease_until < before)
       order by g.first_seen_at limit most - v_count
       for update skip locked);
    delete from {schema}.inbox_guard g where g.ctid = any (v_rows);
    v_count := v_count + cardinality(v_rows);
  end if;
  return v_count;
end
$function$;
comment on function {schema}.inbox_purge_old is
  'Deletes what is remembered of messages that were last seen before a time; returns how many.';
