#pragma once

#include <memory>
#include <utility>

#include "dovetail/clock.hpp"
#include "sqlite/connection.hpp"
#include "storage/statement.hpp"
#include "storage/subscription_store.hpp"

namespace dovetail::sqlite {

class SubscriptionStore final : public storage::SubscriptionStore {
 public:
  SubscriptionStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  bool create(storage::WriteSession& session, const storage::SubscriptionOrder& order) override;
  std::optional<storage::PartLease> acquire(storage::WriteSession& session, std::string_view name,
                                            int part, OwnerToken owner,
                                            std::chrono::microseconds lease) override;
  bool renew(storage::WriteSession& session, const storage::PartLease& part,
             std::chrono::microseconds lease) override;
  bool release(storage::WriteSession& session, const storage::PartLease& part) override;
  bool advance(storage::WriteSession& session, const storage::PartLease& part,
               storage::PartMove move) override;
  std::optional<int> fail(storage::WriteSession& session, const storage::PartLease& part,
                          std::string_view error, std::chrono::microseconds retry_in,
                          bool stop) override;
  bool park(storage::WriteSession& session, const storage::PartLease& part, storage::PartMove move,
            ParkedKind kind, std::string_view error) override;
  bool move_parked(storage::WriteSession& session, const storage::PartLease& part,
                   std::int64_t position, std::optional<std::int64_t> version) override;
  bool fail_parked(storage::WriteSession& session, const storage::PartLease& part,
                   std::int64_t position, std::int64_t failed, std::string_view error) override;
  std::vector<storage::SubscriptionChanges> changes(storage::ReadSession& session) override;
  std::vector<ParkedEvent> parked(storage::ReadSession& session, std::string_view name, int parts,
                                  int part) override;
  std::vector<SubscriptionStatus> list(storage::ReadSession& session,
                                       std::optional<std::string_view> name) override;
  std::vector<SubscriptionPart> parts(storage::ReadSession& session,
                                      std::string_view name) override;
  bool pause(storage::WriteSession& session, std::string_view name) override;
  bool resume(storage::WriteSession& session, std::string_view name) override;
  std::size_t resume_parked(storage::WriteSession& session, std::string_view name,
                            std::optional<std::string_view> stream) override;
  bool skip(storage::WriteSession& session, std::string_view name, std::int64_t position) override;
  bool rebuild(storage::WriteSession& session, std::string_view name,
               std::int64_t position) override;
  bool remove(storage::WriteSession& session, std::string_view name) override;

 private:
  /// Replaces the parts when all of them have drained.
  void divide(Connection& connection, std::string_view name);
  [[nodiscard]] bool is_held(Connection& connection, const storage::PartLease& part);
  /// Runs a statement with the name as its first parameter.
  bool run(storage::WriteSession& session, const storage::Statement& statement,
           std::string_view name);

  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
