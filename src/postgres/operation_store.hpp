#pragma once

#include "storage/operation_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class AuditStore final : public storage::AuditStore {
 public:
  explicit AuditStore(const storage::StatementTexts& texts) : texts_(texts) {}

  void record(storage::WriteSession& session, const AuditRecord& record) override;
  std::vector<AuditEntry> list(storage::ReadSession& session, const AuditPage& page) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;

 private:
  const storage::StatementTexts& texts_;
};

class ReplayStore final : public storage::ReplayStore {
 public:
  explicit ReplayStore(const storage::StatementTexts& texts) : texts_(texts) {}

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
};

}  // namespace dovetail::postgres
