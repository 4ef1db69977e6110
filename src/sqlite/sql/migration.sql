-- The migrations of the schema.

-- name: migration_exists
select exists (select 1 from sqlite_schema
                where type = 'table' and name = '{schema}_schema_migrations');

-- name: migration_list
-- returns: number integer, name text, checksum text, compatible_with integer
select number, name, checksum, compatible_with from {schema}_schema_migrations order by number;

-- name: migration_prepare
-- The write transaction is the migration lock.
create table if not exists {schema}_schema_migrations (
  number          integer primary key,
  name            text not null,
  checksum        text not null,
  compatible_with integer not null, -- the oldest library that works with it, by its last migration
  applied_at      integer not null default (unixepoch() * 1000000)
) strict;

-- name: migration_record
insert into {schema}_schema_migrations (number, name, checksum, compatible_with)
  values (?1, ?2, ?3, ?4);
