-- Leases. Times are microseconds since 1970. The store binds the current time. A block named
-- <statement>_step_<name> is a step of that statement. SQLite has one writer, so the statements of
-- a transaction need no locks.

-- name: lease_try_acquire
-- returns: name text, slot integer, owner text, token integer, lease_until time, acquired_at time
-- returns: renewed_at time
insert into {schema}_lease (name, slot, owner, token, grant_id, lease_until, acquired_at,
                            renewed_at)
values (?1, ?2, ?3, (select last from {schema}_lease_token), ?4, ?5, ?6, ?6)
on conflict (name, slot) do update
   set owner = excluded.owner, token = excluded.token, grant_id = excluded.grant_id,
       lease_until = excluded.lease_until, acquired_at = excluded.acquired_at,
       renewed_at = excluded.renewed_at
returning name, slot, owner, token, lease_until, acquired_at, renewed_at;

-- name: lease_try_acquire_step_token
update {schema}_lease_token set last = last + 1;

-- name: lease_try_acquire_step_granted
-- returns: as lease_try_acquire
-- The lease that an earlier run of this call took.
select name, slot, owner, token, lease_until, acquired_at, renewed_at
  from {schema}_lease where name = ?1 and grant_id = ?2 and lease_until > ?3;

-- name: lease_try_acquire_step_taken
-- The held slots.
select slot from {schema}_lease where name = ?1 and lease_until > ?2 order by slot;

-- name: lease_renew
update {schema}_lease set lease_until = max(lease_until, ?5), renewed_at = ?4
 where name = ?1 and owner = ?2 and token = ?3 and lease_until > ?4
returning lease_until;

-- name: lease_release
delete from {schema}_lease where name = ?1 and owner = ?2 and token = ?3 returning lease_until;

-- name: lease_purge
delete from {schema}_lease
 where (name, slot) in (select name, slot from {schema}_lease where lease_until < ?1 limit ?2);

-- name: lease_list
-- returns: as lease_try_acquire
-- The leases of one name (?1), or of all. The page begins after (?2, ?3).
select name, slot, owner, token, lease_until, acquired_at, renewed_at
  from {schema}_lease
 where (?1 is null or name = ?1) and (?2 is null or (name, slot) > (?2, ?3)) and lease_until > ?5
 order by name, slot limit ?4;
