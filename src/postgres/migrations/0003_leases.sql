-- Leases: exclusive ownership of a name, or of one of several slots of a name, until a time. The
-- tables are private. The functions and views are the public interface.

-- Tokens grow over all names and forever. So the row of a lease can be deleted when it is released,
-- and the next holder of the name still gets a higher token.
create sequence {schema}.lease_token;

create table {schema}.lease (
  name        text        not null,
  slot        integer     not null,   -- 0: the one and only; from 1: one of a few
  owner       text        not null,
  token       bigint      not null,
  grant_id    uuid        not null,   -- the call that took it; a retry of that call gets it again
  lease_until timestamptz not null,
  acquired_at timestamptz not null,
  renewed_at  timestamptz not null,
  constraint lease_pkey primary key (name, slot)
) with (fillfactor = 50);

-- The leases that are held now.
create view {schema}.leases as
  select name, slot, owner, token, lease_until, acquired_at, renewed_at
    from {schema}.lease where lease_until > {schema}.clock();
comment on view {schema}.leases is
  'Leases that are held.';

-- Takes the lease of a name for `duration`, unless it is held, also by the same owner. Returns the
-- lease, or no row. With `slots`, takes one of that many slots of the name. A name with slots and
-- the same name without slots are different leases. The token is higher than every earlier token.
create function {schema}.lease_try_acquire(
  name     text,
  owner    text,
  duration interval,
  slots    integer default null,
  grant_id uuid    default null
) returns setof {schema}.lease
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '5s'
as $function$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_slot integer := 0;
begin
  if name is null or char_length(name) not between 1 and 255 then
    raise exception 'name must have 1 to 255 characters' using errcode = 'invalid_parameter_value';
  elsif owner is null or char_length(owner) not between 1 and 255 then
    raise exception 'owner must have 1 to 255 characters' using errcode = 'invalid_parameter_value';
  elsif duration is null or duration <= interval '0' then
    raise exception 'duration must be positive' using errcode = 'invalid_parameter_value';
  elsif slots not between 1 and 10000 then
    raise exception 'slots must be 1 to 10000' using errcode = 'invalid_parameter_value';
  end if;
  -- One transaction at a time per name, and no renewal at the same time. So the next one sees the
  -- result of this one, and draws its token later.
  perform pg_advisory_xact_lock(hashtextextended('{schema}.lease:' || lease_try_acquire.name, 0));
  v_now := {schema}.clock();
  return query
  select l.* from {schema}.lease l
   where l.name = lease_try_acquire.name and l.grant_id = lease_try_acquire.grant_id
     and l.lease_until > v_now;
  if found then
    return;
  elsif slots is null then
    if exists (select from {schema}.lease l
                where l.name = lease_try_acquire.name and l.slot = 0 and l.lease_until > v_now) then
      return;
    end if;
  else
    select min(s.slot) into v_slot from generate_series(1, slots) as s(slot)
     where not exists (select from {schema}.lease l
                        where l.name = lease_try_acquire.name and l.slot = s.slot
                          and l.lease_until > v_now);
    if v_slot is null or slots <= (select count(*) from {schema}.lease l
                                    where l.name = lease_try_acquire.name and l.slot > 0
                                      and l.lease_until > v_now) then
      return;
    end if;
  end if;
  return query
  insert into {schema}.lease as l (name, slot, owner, token, grant_id, lease_until, acquired_at,
                                   renewed_at)
  values (lease_try_acquire.name, v_slot, lease_try_acquire.owner, nextval('{schema}.lease_token'),
          coalesce(lease_try_acquire.grant_id, gen_random_uuid()), v_now + duration, v_now, v_now)
  on conflict (name, slot) do update
     set owner = excluded.owner, token = excluded.token, grant_id = excluded.grant_id,
         lease_until = excluded.lease_until, acquired_at = excluded.acquired_at,
         renewed_at = excluded.renewed_at
   where l.lease_until <= v_now
  returning l.*;
end
$function$;
comment on function {schema}.lease_try_acquire is
  'Takes the lease of a name, or one of its slots, unless it is held; returns it, or no row.';

-- Renews a held lease until `duration` from now, but never shortens it. Returns the new end, or
-- null if this owner with this token does not hold the lease any more.
--
-- A transaction that wants to acquire the name waits until this one has committed, and reads the
-- clock after it has locked the row. So a lease is never both renewed and taken.
create function {schema}.lease_renew(name text, owner text, token bigint, duration interval)
  returns timestamptz
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '5s'
as $function$
declare
  v_until timestamptz;
begin
  if duration is null or duration <= interval '0' then
    raise exception 'duration must be positive' using errcode = 'invalid_parameter_value';
  end if;
  perform pg_advisory_xact_lock_shared(hashtextextended('{schema}.lease:' || lease_renew.name, 0));
  perform from {schema}.lease l
    where l.name = lease_renew.name and l.token = lease_renew.token for no key update;
  update {schema}.lease l
     set lease_until = greatest(l.lease_until, {schema}.clock() + duration),
         renewed_at = {schema}.clock()
   where l.name = lease_renew.name and l.owner = lease_renew.owner and l.token = lease_renew.token
     and l.lease_until > {schema}.clock()
  returning l.lease_until into v_until;
  return v_until;
end
$function$;
comment on function {schema}.lease_renew is
  'Renews a held lease; returns its new end, or null when it is no longer held.';

-- Internal. Does the work of lease_release. Returns null if there is no such lease.
create function {schema}._lease_release(name text, owner text, token bigint) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_held boolean;
begin
  delete from {schema}.lease l
   where l.name = _lease_release.name and l.owner = _lease_release.owner
     and l.token = _lease_release.token
  returning l.lease_until > {schema}.clock() into v_held;
  return v_held;
end
$function$;

-- Releases a lease. Returns whether it was still held.
create function {schema}.lease_release(name text, owner text, token bigint) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
begin
  return coalesce({schema}._lease_release(name, owner, token), false);
end
$function$;
comment on function {schema}.lease_release is
  'Gives a lease back; returns whether it was still held.';

-- Deletes up to `most` leases that expired before `expired_before`, and returns their number.
create function {schema}.lease_purge(expired_before timestamptz, most integer default 1000)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $function$
declare
  v_count integer;
begin
  delete from {schema}.lease l
   where l.ctid = any (array(select o.ctid from {schema}.lease o
                              where o.lease_until < least(expired_before, {schema}.clock())
                              limit most for update skip locked));
  get diagnostics v_count = row_count;
  return v_count;
end
$function$;
comment on function {schema}.lease_purge is
  'Deletes leases that expired before a time; returns how many.';
