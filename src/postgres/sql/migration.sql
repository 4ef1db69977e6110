-- The migrations of the schema.

-- name: migration_exists
select to_regclass('{schema}.schema_migrations') is not null;

-- name: migration_list
-- returns: number integer, name text, checksum text, compatible_with integer
select number, name, checksum, compatible_with from {schema}.schema_migrations order by number;

-- name: migration_prepare
-- Takes the migration lock until the transaction ends, then creates the table of migrations if it
-- does not exist.
do $block$
begin
  perform pg_advisory_xact_lock(hashtextextended('dovetail migrations of {schema}', 0));
  if to_regnamespace('{schema}') is null then
    create schema {schema};
  end if;
  if to_regclass('{schema}.schema_migrations') is null then
    create table {schema}.schema_migrations (
      number          bigint primary key,
      name            text not null,
      checksum        text not null,
      compatible_with bigint not null, -- the last migration of the oldest library that works
      applied_at      timestamptz not null default clock_timestamp()
    );
  end if;
end
$block$;

-- name: migration_record
insert into {schema}.schema_migrations (number, name, checksum, compatible_with)
values ($1::bigint, $2::text, $3::text, $4::bigint);
