// Operations of components on a Transaction of a caller, which the public header does not show.
#pragma once

#include <functional>
#include <utility>

#include "core/assert.hpp"
#include "dovetail/transaction.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct TransactionAccess {
  static TransactionHandle& handle_of(Transaction& transaction) {
    DOVETAIL_ASSERT(transaction.handle_ != nullptr);
    return *transaction.handle_;
  }
};

/// Throws InvalidOperation when the transaction has ended or failed.
[[nodiscard]] inline WriteSession& session_of(Transaction& transaction) {
  return TransactionAccess::handle_of(transaction).session();
}

/// Calls `call` once the transaction has committed; at once for a borrowed one.
inline void after_commit(Transaction& transaction, std::function<void()> call) {
  TransactionAccess::handle_of(transaction).after_commit(std::move(call));
}

}  // namespace dovetail::storage
