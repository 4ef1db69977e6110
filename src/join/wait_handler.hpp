// The handler of messages that wait for a join.
//
// It locks the join, reads it and decides, in one transaction. If the join has ended, the
// continuation and the ack commit together. If it is pending, the note that the message waits and
// the snooze commit together. So the join cannot end unseen in between.
#pragma once

#include <functional>

#include "dovetail/handler.hpp"
#include "dovetail/join.hpp"
#include "storage/database.hpp"

namespace dovetail::join {

class WaitHandler final : public Handler {
 public:
  WaitHandler(storage::Database& database, Outbox& outbox, const JoinOptions& options, Logger log,
              Metrics metrics, std::function<void()> note_waiting)
      : database_(database),
        outbox_(outbox),
        options_(options),
        log_(std::move(log)),
        metrics_(std::move(metrics)),
        note_waiting_(std::move(note_waiting)) {}

  [[nodiscard]] std::string topic() const override { return options_.wait_topic; }
  [[nodiscard]] HandlerOptions options() const override;
  void handle(const Message& message, HandlerContext& context) override;

 private:
  void look(const Message& message, HandlerContext& context);
  void go_on(const Message& message, const Continuation& continuation, const Join& join,
             Transaction& transaction);
  /// `event` must be a literal: it is used after the commit.
  void log_decision(Transaction& transaction, LogLevel level, std::string_view event,
                    const Message& message, const Join& join) const;

  storage::Database& database_;
  Outbox& outbox_;
  const JoinOptions& options_;
  Logger log_;
  Metrics metrics_;
  std::function<void()> note_waiting_;  // called for a join that is pending
};

}  // namespace dovetail::join
