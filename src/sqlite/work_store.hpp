#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dovetail/clock.hpp"
#include "sqlite/queue_store.hpp"
#include "storage/event_store.hpp"
#include "storage/work_store.hpp"

namespace dovetail::sqlite {

/// The composite call, made of the roles of the queues in one transaction.
class WorkStore final : public storage::WorkStore {
 public:
  struct Parts {
    QueueStore& outbox;
    QueueStore& inbox;
    storage::InboxStore& receiver;
    storage::EventStore& events;
  };

  WorkStore(const storage::StatementTexts& texts, std::shared_ptr<Clock> clock, const Parts& parts)
      : texts_(texts), clock_(std::move(clock)), parts_(parts) {}

  [[nodiscard]] bool is_single_statement() const override { return false; }
  WorkResult process(storage::WriteSession& session, const storage::WorkBatchOrder& order) override;
  bool leave(storage::WriteSession& session, InstanceId instance) override;

 private:
  /// The messages that this call has stored.
  struct Stored {
    std::set<Uuid> ids;
    std::set<std::string, std::less<>> streams;
  };
  /// One queue of the call.
  struct Side {
    WorkKind kind;
    QueueStore& queue;
    const storage::WorkPart& part;
    Stored stored{};
  };

  void settle(storage::WriteSession& session, const storage::WorkBatchOrder& order,
              const Side& side, WorkResult& result);
  void renew(storage::WriteSession& session, const storage::WorkBatchOrder& order, const Side& side,
             WorkResult& result);
  bool is_closed(storage::WriteSession& session, const std::optional<std::string_view>& stream);
  void store_outbox(storage::WriteSession& session, bool fresh, Side& side, WorkResult& result);
  void store_inbox(storage::WriteSession& session, Side& side, WorkResult& result);
  /// Notes a message that was stored, and appends its event.
  void stored(storage::WriteSession& session, Side& side, std::size_t place,
              const storage::NewMessage& message);
  void beat(storage::WriteSession& session, const storage::WorkBatchOrder& order);
  /// Removes stale instances, and lets their leases expire. Returns their number.
  int remove_stale(storage::WriteSession& session, const storage::WorkBatchOrder& order);
  WorkShare share(storage::WriteSession& session, const storage::WorkBatchOrder& order,
                  WorkKind queue);
  ClaimFilter filter_of(storage::WriteSession& session, const storage::WorkBatchOrder& order,
                        const Side& side, const WorkShare& share);
  void claim(storage::WriteSession& session, const storage::WorkBatchOrder& order, const Side& side,
             const WorkShare& share, WorkResult& result);

  const storage::StatementTexts& texts_;
  std::shared_ptr<Clock> clock_;
  Parts parts_;
};

}  // namespace dovetail::sqlite
