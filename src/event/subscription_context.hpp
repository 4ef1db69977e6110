// The context of a call of a subscription's handler.
#pragma once

#include <memory>
#include <optional>

#include "dovetail/subscription.hpp"
#include "storage/database.hpp"
#include "storage/lent_transaction.hpp"
#include "storage/subscription_store.hpp"

namespace dovetail::event {

class CallContext final : public SubscriptionContext {
 public:
  CallContext(storage::Database& database, const storage::PartLease& lease, std::stop_token stop)
      : database_(database), lease_(lease), stop_(std::move(stop)) {}

  [[nodiscard]] std::stop_token stop_token() const override { return stop_; }
  [[nodiscard]] const std::string& database() const override { return database_.name(); }
  [[nodiscard]] const std::string& subscription() const override { return lease_.name; }
  [[nodiscard]] int part() const override { return lease_.part; }
  [[nodiscard]] std::int64_t epoch() const override { return lease_.epoch; }
  [[nodiscard]] Transaction& transaction() override {
    if (!lent_) {
      own_ = database_.begin();
      lent_.emplace(std::make_unique<storage::LentTransaction>(*own_));
    }
    return *lent_;
  }

  /// Null if the handler has not begun it.
  [[nodiscard]] storage::TransactionHandle* begun() const { return own_.get(); }

 private:
  storage::Database& database_;
  const storage::PartLease& lease_;
  const std::stop_token stop_;
  std::unique_ptr<storage::TransactionHandle> own_;
  std::optional<Transaction> lent_;
};

}  // namespace dovetail::event
