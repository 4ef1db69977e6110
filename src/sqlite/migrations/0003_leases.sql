-- Leases: exclusive ownership of a name, or of one of several slots of a name, until a time. Times
-- are microseconds since 1970.

-- Tokens grow over all names and forever. So the row of a lease can be deleted when it is released,
-- and the next holder of the name still gets a higher token.
create table {schema}_lease_token (
  last integer not null
) strict;
insert into {schema}_lease_token (last) values (0);

create table {schema}_lease (
  name        text    not null check (length(name) between 1 and 255),
  slot        integer not null,   -- 0: a lease without slots; from 1: one of several slots
  owner       text    not null check (length(owner) between 1 and 255),
  token       integer not null,
  grant_id    blob    not null,   -- the call that took it; a retry of that call gets it again
  lease_until integer not null,
  acquired_at integer not null,
  renewed_at  integer not null,
  primary key (name, slot)
) strict, without rowid;
