// The schema that a measure works in.
#include "cli/bench/schema.hpp"

#include "cli/bench/tools.hpp"
#include "runtime/engines.hpp"

namespace dovetail::cli::bench {
namespace {

/// Opens the database itself, whatever the state of its schema.
std::unique_ptr<storage::Database> open_raw(const Settings& settings) {
  return runtime::open_database(settings.url, {.schema = settings.platform.schema,
                                               .clock = system_clock(),
                                               .log = Logger{settings.platform.log_sink}});
}

std::int64_t count_of(storage::Database& database, const std::string& sql,
                      const std::string& schema) {
  Transaction transaction{database.begin()};
  return transaction.query(sql, schema).at(0).get<std::int64_t>(0);
}

}  // namespace

void create_schema(const Settings& settings) {
  const auto& schema = settings.platform.schema;
  const auto database = open_raw(settings);
  const bool postgres = is_postgres(settings.url);
  const bool used = count_of(*database,
                             postgres ? "select count(*) from pg_namespace where nspname = $1"
                                      : "select count(*) from sqlite_master where substr(name, 1, "
                                        "length($1) + 1) = $1 || '_'",
                             schema) > 0;
  if (used) {
    throw std::invalid_argument(
        "the schema " + schema +
        " is in use: bench wants one of its own, which it drops at the end (--schema)");
  }
  auto platform = open(settings);
  Transaction transaction{database->begin()};
  transaction.execute(postgres ? "create table \"" + schema + "\".bench_mark (made_at timestamptz)"
                               : "create table \"" + schema + "_bench_mark\" (made_at integer)");
  transaction.commit();
}

void require_created(const Settings& settings) {
  const auto& schema = settings.platform.schema;
  const auto database = open_raw(settings);
  const auto marks = count_of(
      *database,
      is_postgres(settings.url)
          ? "select count(*) from pg_tables where schemaname = $1 and tablename = 'bench_mark'"
          : "select count(*) from sqlite_master where name = $1 || '_bench_mark'",
      schema);
  if (marks == 0) throw std::invalid_argument("the schema " + schema + " was not made by bench");
}

void drop_schema(const Settings& settings) {
  require_created(settings);
  const auto& schema = settings.platform.schema;
  const auto database = open_raw(settings);
  Transaction transaction{database->begin()};
  if (is_postgres(settings.url)) {
    transaction.execute("drop schema \"" + schema + "\" cascade");
  } else {
    const auto parts = transaction.query(
        "select type, name from sqlite_master where type in ('table', 'view') "
        "and substr(name, 1, length($1) + 1) = $1 || '_' order by type desc",  // views first
        schema);
    for (const auto& part : parts) {
      transaction.execute("drop " + part.get<std::string>(0) + " \"" + part.get<std::string>(1) +
                          "\"");
    }
  }
  transaction.commit();
}

OwnSchema::OwnSchema(Settings settings) : settings_(std::move(settings)) {
  create_schema(settings_);
}

OwnSchema::~OwnSchema() {
  try {
    drop_schema(settings_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): report the failure of the
                                     // measure instead
  }
}

}  // namespace dovetail::cli::bench
