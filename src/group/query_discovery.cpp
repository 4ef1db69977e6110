#include <chrono>
#include <stdexcept>
#include <utility>

#include "dovetail/discovery.hpp"
#include "dovetail/error.hpp"
#include "runtime/engines.hpp"

namespace dovetail {
namespace {

/// The group retries after its refresh interval, so one call need not retry for long.
constexpr std::chrono::seconds control_retry_for{5};

class QueryDiscovery final : public DatabaseDiscovery {
 public:
  QueryDiscovery(std::string_view url, std::string query)
      : database_(runtime::open_database(url, {.max_connections = 1,
                                               .service_connections = 1,
                                               .retry_for = control_retry_for,
                                               .clock = system_clock()})),
        query_(std::move(query)) {}

  std::vector<DatabaseEntry> find(const std::stop_token& stop) override {
    if (!database_->exists()) {
      throw InvalidOperation("the control database " + database_->name() + " does not exist");
    }
    Rows rows;
    database_->read([&](storage::ReadSession& session) { rows = session.query(query_, {}); },
                    {.stop = stop});
    database_->close_idle();  // it is needed again in some minutes
    std::vector<DatabaseEntry> entries;
    entries.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) entries.push_back(entry_of(rows[i], i + 1));
    return entries;
  }

 private:
  [[nodiscard]] DatabaseEntry entry_of(const Row& row, std::size_t number) const {
    if (row.size() != 2 && row.size() != 3) {
      throw InvalidOperation("the query on " + database_->name() + " returns " +
                             std::to_string(row.size()) +
                             " columns: it must return key, url and, if you want, schema");
    }
    DatabaseEntry entry;
    try {
      entry.key = field(row, 0, number, "key");
      entry.url = field(row, 1, number, "url");
      if (row.size() == 3 && !row.is_null(2)) entry.schema = field(row, 2, number, "schema");
    } catch (const InvalidOperation& error) {
      entry.error = error.what();  // a bad row does not affect the others
    }
    return entry;
  }
  /// Keys may be UUIDs or integers, too.
  [[nodiscard]] std::string field(const Row& row, std::size_t column, std::size_t number,
                                  const std::string& name) const {
    const auto& value = row.at(column);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (name == "key") {
      if (const auto* uuid = std::get_if<Uuid>(&value)) return uuid->to_string();
      if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
    }
    throw InvalidOperation("the query on " + database_->name() + ", row " + std::to_string(number) +
                           ": the column " + name +
                           (row.is_null(column) ? " is NULL" : " is not text"));
  }

  std::unique_ptr<storage::Database> database_;
  std::string query_;
};

}  // namespace

std::shared_ptr<DatabaseDiscovery> query_discovery(std::string_view url, std::string query) {
  if (query.empty()) throw std::invalid_argument("query_discovery: the query is empty");
  return std::make_shared<QueryDiscovery>(url, std::move(query));
}

}  // namespace dovetail
