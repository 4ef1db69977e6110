-- Leases. The functions of the schema (migrations/) contain the rules. These statements call them.

-- name: lease_try_acquire
-- returns: name text, slot integer, owner text, token integer, lease_until time, acquired_at time
-- returns: renewed_at time
select name, slot, owner, token, lease_until, acquired_at, renewed_at
  from {schema}.lease_try_acquire(name => $1::text, owner => $2::text,
                                  duration => $3::bigint * interval '1 microsecond',
                                  slots => $4::integer, grant_id => $5::uuid);

-- name: lease_renew
select {schema}.lease_renew(name => $1::text, owner => $2::text, token => $3::bigint,
                            duration => $4::bigint * interval '1 microsecond');

-- name: lease_release
-- Null: there is no such lease.
select {schema}._lease_release(name => $1::text, owner => $2::text, token => $3::bigint);

-- name: lease_purge
select {schema}.lease_purge(expired_before => {schema}.clock()
                                              - $1::bigint * interval '1 microsecond',
                            most => $2::integer);

-- name: lease_list
-- returns: as lease_try_acquire
-- The leases of one name ($1), or of all. The page begins after ($2, $3).
select name, slot, owner, token, lease_until, acquired_at, renewed_at
  from {schema}.leases
 where ($1::text is null or name = $1) and ($2::text is null or (name, slot) > ($2, $3::integer))
 order by name, slot limit $4::bigint;
