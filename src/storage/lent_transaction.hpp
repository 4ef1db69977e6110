// A transaction of the runtime, as a handler sees it: the handler cannot end it.
#pragma once

#include "dovetail/error.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

class LentTransaction final : public TransactionHandle {
 public:
  explicit LentTransaction(TransactionHandle& inner) : inner_(inner) {}
  WriteSession& session() override { return inner_.session(); }
  void commit() override { refuse(); }
  void rollback() override { refuse(); }
  void after_commit(std::function<void()> call) override { inner_.after_commit(std::move(call)); }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidOperation(
        "a handler's transaction ends with the handler: return to commit it, throw to roll it "
        "back");
  }
  TransactionHandle& inner_;
};

}  // namespace dovetail::storage
