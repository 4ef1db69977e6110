-- PostgreSQL gets comments on its functions and views here. SQLite has neither, so that
-- nothing is to be done to {schema}.
select 1;
