#include "dovetail/transaction.hpp"

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "storage/session.hpp"

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
  return session().execute(sql, parameters);
}

Rows Transaction::query_with(std::string_view sql, std::span<const Parameter> parameters) {
  return session().query(sql, parameters);
}

void Transaction::commit() {
  DOVETAIL_ASSERT(handle_ != nullptr);
  handle_->commit();
}

void Transaction::rollback() {
  DOVETAIL_ASSERT(handle_ != nullptr);
  handle_->rollback();
}

void Transaction::after_commit(std::function<void()> call) {
  handle_->after_commit(std::move(call));
}

storage::WriteSession& Transaction::session() {
  DOVETAIL_ASSERT(handle_ != nullptr);
  return handle_->session();
}

}  // namespace dovetail
