#include "dovetail/audit.hpp"

#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "storage/database.hpp"
#include "storage/operation_store.hpp"
#include "storage/portions.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

constexpr std::size_t longest_audit_name = 255;
constexpr std::size_t longest_audit_text = 2'048;
constexpr std::chrono::hours longest_audit_age{24 * 3650};

AuditRecord storable(const AuditRecord& record) {
  if (record.actor.empty()) throw std::invalid_argument("actor must not be empty");
  if (record.action.empty()) throw std::invalid_argument("action must not be empty");
  const auto kept = [](std::string_view text, std::size_t limit) {
    return std::string{core::trimmed(core::printable(text), limit)};
  };
  return {.actor = kept(record.actor, longest_audit_name),
          .action = kept(record.action, longest_audit_name),
          .target = kept(record.target, longest_audit_text),
          .detail = kept(record.detail, longest_audit_text),
          .count = record.count,
          .result = kept(record.result, longest_audit_text)};
}

}  // namespace

Audit::Audit(storage::Database& database)
    : database_(&database), store_(&database.store<storage::AuditStore>()) {}

void Audit::record(const AuditRecord& record) {
  const auto kept = storable(record);
  database_->write({.single_statement = true},
                   [&](storage::WriteSession& session) { store_->record(session, kept); });
}

void Audit::record(Transaction& transaction, const AuditRecord& record) {
  store_->record(storage::session_of(transaction), storable(record));
}

std::vector<AuditEntry> Audit::list(const AuditPage& page) {
  core::require_batch_size("size", page.size);
  std::vector<AuditEntry> found;
  database_->read([&](storage::ReadSession& session) { found = store_->list(session, page); });
  return found;
}

std::size_t Audit::purge(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > longest_audit_age)
    throw std::out_of_range("age must be zero to ten years");
  return storage::in_portions(
      *database_,
      [&](storage::WriteSession& session) { return store_->purge(session, age, storage::portion); },
      stop);
}

}  // namespace dovetail
