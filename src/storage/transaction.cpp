#include "dovetail/transaction.hpp"

#include "dovetail/error.hpp"
#include "storage/session.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace storage {
namespace {

[[noreturn]] void refuse() {
  throw InvalidOperation("a borrowed transaction is committed or rolled back by its owner");
}

}  // namespace

void BorrowedTransactionHandle::commit() {
  refuse();
}
void BorrowedTransactionHandle::rollback() {
  refuse();
}

}  // namespace storage

Transaction::Transaction(std::unique_ptr<storage::TransactionHandle> handle)
    : handle_(std::move(handle)) {}
Transaction::Transaction(Transaction&&) noexcept = default;
Transaction& Transaction::operator=(Transaction&&) noexcept = default;
Transaction::~Transaction() = default;

std::size_t Transaction::execute_with(std::string_view sql, std::span<const Parameter> parameters) {
  return storage::session_of(*this).execute(sql, parameters);
}

Rows Transaction::query_with(std::string_view sql, std::span<const Parameter> parameters) {
  return storage::session_of(*this).query(sql, parameters);
}

void Transaction::commit() {
  storage::TransactionAccess::handle_of(*this).commit();
}

void Transaction::rollback() {
  storage::TransactionAccess::handle_of(*this).rollback();
}

}  // namespace dovetail
