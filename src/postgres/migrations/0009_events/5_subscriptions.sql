-- Subscriptions: readers of the feed with a name and a stored position.
--
-- A subscription has one or more parts. The streams are distributed over the parts, by their
-- numbers. Each part has a position, and a lease with an epoch. The position moves in the
-- transaction of the handler, under the condition that epoch and position are those that the
-- handler began with: so each event takes effect once, whatever happens to the lease.

create table {schema}.event_subscription (
  parts      smallint    not null check (parts between 1 and 256),
  next_parts smallint,                              -- wanted; the parts first drain to drain_to
  drain_to   bigint,
  changes    bigint      not null default 0,        -- by operators; owners lease their parts again
  created_at timestamptz not null default {schema}.clock(),
  paused_at  timestamptz,
  name       {schema}.event_word not null,
  on_failure text        not null default 'retry',  -- for operators; the handler's process decides
  types      text[],                                -- null: all
  prefixes   text[],                                -- of stream keys; null: all
  constraint event_subscription_pkey primary key (name)
);

-- No index has a column that a checkpoint changes, so it is a HOT update.
create table {schema}.event_subscription_part (
  part        smallint    not null,
  attempts    integer     not null default 0,       -- failed calls since the position has moved
  position    bigint      not null,                 -- events up to it were handled
  epoch       bigint      not null default 0,       -- increases with each lease
  lease_until timestamptz,
  retry_at    timestamptz,                          -- after a failure
  stopped_at  timestamptz,                          -- a failure has stopped it until resume
  moved_at    timestamptz not null default {schema}.clock(),
  owner_token uuid,
  name        {schema}.event_word not null,
  last_error  text,
  constraint event_subscription_part_pkey primary key (name, part)
) with (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Events that a subscription does not handle for now. kind: 'event': this event has failed.
-- 'stream': this event has failed, and the later events of its stream wait; position and version
-- are those of the first event that waits. 'skipped': an operator has skipped this event.
create table {schema}.event_parked (
  position   bigint      not null,
  version    bigint      not null,
  stream_no  bigint      not null,
  parked_at  timestamptz not null default {schema}.clock(),
  resumed_at timestamptz,                           -- to be handled again
  attempts   integer     not null,
  kind       text        not null check (kind in ('event', 'stream', 'skipped')),
  name       {schema}.event_word not null,
  stream     text collate "C" not null,
  error      text        not null,
  constraint event_parked_pkey primary key (name, position)
);

-- Creates a subscription, or changes its filter and the number of its parts. A new subscription
-- begins after the position `start`; null: after the last position. If the number of parts changes,
-- the parts first handle the events up to the highest position of any part; then they are replaced.
create function {schema}.event_subscription_create(
  name       text,
  parts      integer default 1,
  types      text[]  default null,
  prefixes   text[]  default null,
  start      bigint  default 0,
  on_failure text    default 'retry'
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_variable
declare
  v_now {schema}.event_subscription;
begin
  insert into {schema}.event_subscription as s (name, parts, types, prefixes, on_failure)
  values (name, parts, types, prefixes, on_failure)
  on conflict on constraint event_subscription_pkey do nothing;
  if found then
    insert into {schema}.event_subscription_part (name, part, position)
    select name, p, coalesce(start, (select f.head from {schema}.event_feed_state f))
      from generate_series(0, parts - 1) p;
    return true;
  end if;
  select * into v_now from {schema}.event_subscription s
   where s.name = event_subscription_create.name for update;
  if (v_now.types, v_now.prefixes, v_now.on_failure)
       is distinct from (types, prefixes, on_failure) then
    update {schema}.event_subscription s
       set types = event_subscription_create.types,
           prefixes = event_subscription_create.prefixes,
           on_failure = event_subscription_create.on_failure
     where s.name = event_subscription_create.name;
  end if;
  if coalesce(v_now.next_parts, v_now.parts) = parts then
    return false;
  elsif v_now.parts = parts then
    update {schema}.event_subscription s set next_parts = null, drain_to = null
     where s.name = event_subscription_create.name;
  else
    -- The new epochs fence running calls: no position moves beyond drain_to. The owners lease the
    -- parts again, and learn drain_to.
    update {schema}.event_subscription_part p
       set epoch = p.epoch + 1, owner_token = null, lease_until = null
     where p.name = event_subscription_create.name;
    update {schema}.event_subscription s
       set next_parts = event_subscription_create.parts, changes = s.changes + 1,
           drain_to = (select max(p.position) from {schema}.event_subscription_part p
                        where p.name = event_subscription_create.name)
     where s.name = event_subscription_create.name;
  end if;
  return false;
end
$function$;
comment on function {schema}.event_subscription_create is
  'Creates a subscription, or changes its filter and its parts; returns whether it was created.';

-- Internal. Replaces the parts of a subscription when all of them have reached drain_to. Returns
-- whether it did.
create function {schema}._event_subscription_divide(name text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_variable
declare
  v_now {schema}.event_subscription;
  v_epoch bigint;
begin
  -- Almost always there is nothing to do: that is found out without a lock.
  perform from {schema}.event_subscription s
    where s.name = _event_subscription_divide.name and s.next_parts is not null;
  if not found then
    return false;
  end if;
  select * into v_now from {schema}.event_subscription s
   where s.name = _event_subscription_divide.name for update;
  if v_now.next_parts is null then
    return false;
  end if;
  perform from {schema}.event_subscription_part p where p.name = _event_subscription_divide.name
    order by p.part for update;
  if exists (select from {schema}.event_subscription_part p
              where p.name = _event_subscription_divide.name and p.position <> v_now.drain_to) then
    return false;
  end if;
  select max(p.epoch) + 1 into v_epoch from {schema}.event_subscription_part p
   where p.name = _event_subscription_divide.name;
  delete from {schema}.event_subscription_part p where p.name = _event_subscription_divide.name;
  insert into {schema}.event_subscription_part (name, part, position, epoch)
  select name, p, v_now.drain_to, v_epoch from generate_series(0, v_now.next_parts - 1) p;
  update {schema}.event_subscription s set parts = v_now.next_parts, next_parts = null,
                                           drain_to = null
   where s.name = _event_subscription_divide.name;
  return true;
end
$function$;

-- Leases a part. Returns no row if another owner holds it, if it is paused or stopped, or if there
-- is no such part. drain_to: the part must not move beyond it. retry_in: how long it should wait
-- after a failure.
create function {schema}.event_subscription_acquire(
  name  text,
  part  integer,
  owner uuid,
  lease interval
) returns table (epoch bigint, "position" bigint, parts integer, drain_to bigint, attempts integer,
                 retry_in interval, changes bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
#variable_conflict use_column
declare
  v_now timestamptz := {schema}.clock();
begin
  perform {schema}._event_subscription_divide(event_subscription_acquire.name);
  return query
  update {schema}.event_subscription_part p
     set owner_token = event_subscription_acquire.owner, epoch = p.epoch + 1,
         lease_until = v_now + event_subscription_acquire.lease
    from {schema}.event_subscription s
   where p.name = event_subscription_acquire.name and p.part = event_subscription_acquire.part
     and s.name = p.name and s.paused_at is null and p.stopped_at is null
     and (p.lease_until is null or p.lease_until <= v_now
          or p.owner_token = event_subscription_acquire.owner)
  returning p.epoch, p.position, s.parts::integer, s.drain_to, p.attempts, p.retry_at - v_now,
            s.changes;
end
$function$;
comment on function {schema}.event_subscription_acquire is
  'Leases a part of a subscription; returns its epoch and position, or no row.';

-- Renews the lease of a part. Returns false if another owner has taken it, or if it was rebuilt or
-- replaced. A call that runs when the subscription is paused ends first.
create function {schema}.event_subscription_renew(name text, part integer, epoch bigint,
                                                  lease interval) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  update {schema}.event_subscription_part p
     set lease_until = greatest(p.lease_until, {schema}.clock() + event_subscription_renew.lease)
   where p.name = event_subscription_renew.name and p.part = event_subscription_renew.part
     and p.epoch = event_subscription_renew.epoch and p.owner_token is not null;
  return found;
end
$function$;
comment on function {schema}.event_subscription_renew is
  'Renews the lease of a part of a subscription; returns whether it is still held.';

-- Gives a part back.
create function {schema}.event_subscription_release(name text, part integer, epoch bigint)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $function$
begin
  update {schema}.event_subscription_part p set owner_token = null, lease_until = null
   where p.name = event_subscription_release.name and p.part = event_subscription_release.part
     and p.epoch = event_subscription_release.epoch;
  return found;
end
$function$;
comment on function {schema}.event_subscription_release is
  'Gives a leased part of a subscription back.';

-- Moves the position of a part: the last statement of the transaction that handled its events.
-- Returns false if the lease has another owner, or if the position is another one: then roll back.
-- durable: false lets the commit return before it is on disk. After a crash, the events are handled
-- again; so use it only in a transaction that does nothing else.
create function {schema}.event_subscription_advance(name text, part integer, epoch bigint,
                                                    from_position bigint, to_position bigint,
                                                    durable boolean default true)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $function$
begin
  if not durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  update {schema}.event_subscription_part p
     set position = to_position, attempts = 0, retry_at = null, last_error = null,
         moved_at = {schema}.clock()
   where p.name = event_subscription_advance.name and p.part = event_subscription_advance.part
     and p.epoch = event_subscription_advance.epoch and p.position = from_position
     and p.owner_token is not null;
  return found;
end
$function$;
comment on function {schema}.event_subscription_advance is
  'Moves the position of a leased part of a subscription; false: roll back.';
