-- Schemas that tests use one after the other. A migration takes 200 ms of the server's time, which
-- is more than most tests need. ./test creates the pool; without it, every test migrates its own
-- schema.
--
-- A schema returns to the pool only if a test has changed rows and the clock, and nothing else.
-- Otherwise it is dropped.
create schema test_pool;

create table test_pool.free_schema (name text primary key);
-- Every schema of the pool, as its migrations have left it.
create table test_pool.schema (name text primary key, signature text, clock text);

-- The catalog rows of a schema, with the transactions that wrote them, and the rows that its
-- migrations have stored. clock() is left out: tests replace it to move the time.
create function test_pool.signature(schema text) returns text language plpgsql as $$
declare
  space oid := schema::regnamespace;
  catalog text;
  rows text := '';
  stored text;
  relation regclass;
begin
  select md5(string_agg(entry, ',' order by entry)) into catalog
    from (select oid || ' ' || xmin from pg_namespace where oid = space
          union all
          select oid || ' ' || xmin from pg_proc where pronamespace = space and proname <> 'clock'
          union all
          select oid || ' ' || xmin from pg_class where relnamespace = space
          union all
          select oid || ' ' || xmin from pg_type where typnamespace = space
          union all
          select oid || ' ' || xmin from pg_constraint where connamespace = space
          union all
          select attrelid || '.' || attnum || ' ' || xmin from pg_attribute
           where attrelid in (select oid from pg_class where relnamespace = space)
          union all
          select oid || ' ' || xmin from pg_trigger
           where tgrelid in (select oid from pg_class where relnamespace = space)) as e (entry);
  for relation in select oid from pg_class
                   where relnamespace = space and relkind = 'r' order by oid loop
    execute format('select md5(string_agg(r::text, '','' order by r::text)) from %s r', relation)
       into stored;
    rows := rows || coalesce(stored, '-') || ' ';
  end loop;
  return catalog || ' ' || rows;
end $$;

-- Adds a schema that was just migrated, and is in use.
create function test_pool.add(schema text) returns void language sql as $$
  insert into test_pool.schema
  values (schema, test_pool.signature(schema),
          pg_get_functiondef((schema || '.clock()')::regprocedure));
$$;

-- A schema without messages, or null if none is free.
create function test_pool.take() returns text language sql as $$
  delete from test_pool.free_schema
   where name = (select name from test_pool.free_schema limit 1 for update skip locked)
  returning name;
$$;

create function test_pool.empty(schema text, before test_pool.schema) returns void
language plpgsql as $$
declare
  kept text[] := string_to_array(trim(before.signature), ' ');
  place int := 1;  -- the first part of the signature is the catalog
  relation regclass;
  sequence regclass;
begin
  for relation in select oid from pg_class
                   where relnamespace = schema::regnamespace and relkind = 'r' order by oid loop
    place := place + 1;
    execute format('lock table %s in access exclusive mode', relation);
    if kept[place] = '-' then execute format('delete from %s', relation); end if;
  end loop;
  for sequence in select oid from pg_class
                   where relnamespace = schema::regnamespace and relkind = 'S' loop
    perform setval(sequence, (select seqstart from pg_sequence where seqrelid = sequence), false);
  end loop;
  if pg_get_functiondef((schema || '.clock()')::regprocedure) <> before.clock then
    execute before.clock;
  end if;
end $$;

-- Empties the schema and returns true. Returns false if the schema is not of the pool, differs from
-- its signature, or is still in use.
create function test_pool.give_back(schema text) returns boolean language plpgsql as $$
declare
  before test_pool.schema;
begin
  select * into before from test_pool.schema where name = schema;
  if not found or exists (select from pg_stat_activity
                           where pid <> pg_backend_pid() and strpos(query, schema) > 0) then
    return false;
  end if;
  set local session_replication_role = replica;  -- no triggers, no foreign keys
  set local lock_timeout = '100ms';
  perform test_pool.empty(schema, before);
  if test_pool.signature(schema) <> before.signature then return false; end if;
  insert into test_pool.free_schema values (schema);
  return true;
exception when others then
  return false;
end $$;
