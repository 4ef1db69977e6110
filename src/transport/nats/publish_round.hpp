// One call of NatsPublisher::publish().
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/nats/connection.hpp"

namespace dovetail::transport::nats {

class PublishRound {
 public:
  /// Answers to the messages come to the subjects `inbox + first_number`, `first_number + 1`, ….
  PublishRound(Connection& connection, const NatsPublisherOptions& options,
               std::span<const Message> messages, std::uint64_t first_number);

  /// `source` is that of the CloudEvents.
  void send_all(std::string_view source);
  void await_all(const TransportCall& call);
  /// True if the connection is of no use: an answer did not come.
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] std::vector<PublishOutcome> take_outcomes() { return std::move(outcomes_); }

 private:
  struct Sent {
    std::string subject{};
    bool awaited = false;
  };

  bool send(std::size_t index, std::string_view source);
  void settle(std::size_t index, PublishOutcome outcome);
  void give_up(const std::string& reason);
  void read_answer(Answer& answer, MonoTime deadline);
  void read_error(const std::string& error);
  PublishOutcome without_responder(const std::string& subject, MonoTime deadline);

  Connection& connection_;
  const NatsPublisherOptions& options_;
  const std::span<const Message> messages_;
  const std::uint64_t first_number_;
  std::vector<Sent> sent_;
  std::vector<PublishOutcome> outcomes_;
  std::size_t awaited_ = 0;
  bool lost_ = false;
};

}  // namespace dovetail::transport::nats
