// The audit: who changed what, for mutations that operators make through the server or your own
// tools.
//
// Guarantees
//   * A record is durable when record() returns, or with the commit of its transaction.
//   * Records are never changed. A started Platform deletes those that are older than 90 days.
//
// Threads: an Audit may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class AuditStore;
class Database;
}  // namespace storage

/// A change to record. Texts are truncated: names to 255 characters, the others to 2 KiB.
struct AuditRecord {
  std::string actor{};   ///< Who made the change.
  std::string action{};  ///< `queue.pause`.
  std::string target{};  ///< What was changed: `outbox/mail`.
  std::string detail{};  ///< For example the filter, as JSON. No payloads and no secrets.
  /// The number of things that were changed, if it is known.
  std::optional<std::int64_t> count{};
  std::string result = "ok";  ///< `ok`, or why the change was not made.
};

struct AuditEntry {
  std::int64_t id = 0;
  WallTime at{};  ///< By the database's clock.
  AuditRecord record{};
};

struct AuditPage {
  std::optional<std::int64_t> before{};  ///< The last id of the previous page.
  int size = 100;                        ///< 1 to 10,000.
};

class Audit {
 public:
  explicit Audit(storage::Database& database);

  /// Throws std::invalid_argument when the actor or the action is empty.
  void record(const AuditRecord& record);
  /// The same, together with the other writes of `transaction`.
  void record(Transaction& transaction, const AuditRecord& record);

  /// Newest first.
  [[nodiscard]] std::vector<AuditEntry> list(const AuditPage& page = {});

  /// Deletes entries that are older than `age` and returns their number.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  storage::Database* database_;
  storage::AuditStore* store_;
};

}  // namespace dovetail
