#pragma once

#include <memory>

#include "dovetail/clock.hpp"
#include "storage/operation_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

class AuditStore final : public storage::AuditStore {
 public:
  AuditStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  void record(storage::WriteSession& session, const AuditRecord& record) override;
  std::vector<AuditEntry> list(storage::ReadSession& session, const AuditPage& page) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

class ReplayStore final : public storage::ReplayStore {
 public:
  ReplayStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock)
      : texts_(texts), clock_(std::move(clock)) {}

  WallTime add(storage::WriteSession& session, ReplayId id, const ReplayRequest& request) override;
  bool advance(storage::WriteSession& session, ReplayId id,
               const storage::ReplayProgress& progress) override;
  bool finish(storage::WriteSession& session, ReplayId id, ReplayState state,
              std::string_view failure) override;
  std::optional<Replay> find(storage::ReadSession& session, ReplayId id) override;
  std::vector<Replay> list(storage::ReadSession& session, const ReplayPage& page) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;

 private:
  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
};

}  // namespace dovetail::sqlite
