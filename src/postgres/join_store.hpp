#pragma once

#include "storage/join_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class JoinStore final : public storage::JoinStore {
 public:
  explicit JoinStore(const storage::StatementTexts& texts) : texts_(texts) {}

  bool start(storage::WriteSession& session, const storage::NewJoin& join) override;
  void expect(storage::WriteSession& session, JoinId join, int steps) override;
  void grow(storage::WriteSession& session, JoinId join, int steps) override;
  std::optional<JoinId> missing(storage::WriteSession& session,
                                std::span<const JoinId> joins) override;
  storage::AttachAnswer attach(storage::WriteSession& session,
                               std::span<const storage::Membership> members,
                               bool known_only) override;
  std::optional<bool> report(storage::WriteSession& session, JoinId join, MessageId message,
                             StepStatus status) override;
  bool is_reported(storage::WriteSession& session, JoinId join, MessageId message,
                   StepStatus status) override;
  std::optional<bool> cancel(storage::WriteSession& session, JoinId join) override;
  bool is_cancelled(storage::WriteSession& session, JoinId join) override;
  void await(storage::WriteSession& session, JoinId join, MessageId message) override;
  std::optional<storage::AwaitedJoin> wait(storage::WriteSession& session, JoinId join,
                                           MessageId message) override;
  [[nodiscard]] bool needs_catch_up() const override { return true; }
  storage::CaughtUp catch_up(storage::WriteSession& session, int most) override;
  std::vector<Join> take_unlogged(storage::WriteSession& session, int most) override;
  std::size_t fail_overdue(storage::WriteSession& session, int most) override;
  std::size_t purge(storage::WriteSession& session, std::chrono::microseconds age,
                    int most) override;
  std::optional<Join> find(storage::ReadSession& session, JoinId join) override;
  std::vector<Join> list(storage::ReadSession& session, const JoinFilter& filter,
                         const JoinPage& page) override;
  std::vector<JoinMember> members(storage::ReadSession& session, JoinId join,
                                  const MemberPage& page) override;
  std::vector<JoinId> joins_of(storage::ReadSession& session, MessageId message, int most) override;
  std::vector<MessageId> waiting(storage::ReadSession& session, JoinId join, int most) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
