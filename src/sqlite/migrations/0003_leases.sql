-- Leases: who may do something alone, or as one of a few, until when. Times are microseconds since 1970.

-- Tokens grow over all names and for ever, so that a lease's row may go when it is released, and the next holder of its name
-- still gets a higher token.
create table {schema}_lease_token (
  last integer not null
) strict;
insert into {schema}_lease_token (last) values (0);

create table {schema}_lease (
  name        text    not null check (length(name) between 1 and 255),
  slot        integer not null,   -- 0: the one and only; from 1: one of a few
  owner       text    not null check (length(owner) between 1 and 255),
  token       integer not null,
  grant_id    blob    not null,   -- of the call that got it: the same call, made again, is not in its own way
  lease_until integer not null,
  acquired_at integer not null,
  renewed_at  integer not null,
  primary key (name, slot)
) strict, without rowid;
